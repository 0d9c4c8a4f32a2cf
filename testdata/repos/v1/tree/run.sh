#!/bin/sh
echo restored
