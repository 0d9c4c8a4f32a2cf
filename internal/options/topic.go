package options

// Topic is the heading under which help lists a flag.
type Topic string

// The topics.
const (
	TopicWhat      Topic = "What"
	TopicWhere     Topic = "Where"
	TopicHowFast   Topic = "How fast"
	TopicHowGently Topic = "How gently"
	TopicShare     Topic = "SMB"
	TopicService   Topic = "Service"
	TopicOutput    Topic = "Output"
)

// The annotations of a flag that help reads: its topic, and that the short help leaves it out.
const (
	TopicAnnotation = "help-topic"
	RareAnnotation  = "help-rare"
)

// Topics returns the topics in the order of the help.
func Topics() []Topic {
	return []Topic{TopicWhat, TopicWhere, TopicHowFast, TopicHowGently, TopicShare, TopicService, TopicOutput}
}

// topic returns the heading of an option: its own, or that of its group.
func (o *Option) topic() Topic {
	if o.Topic != "" {
		return o.Topic
	}
	switch o.Group {
	case GroupRepository, GroupKeys, GroupFrom, GroupCache:
		return TopicWhere
	case GroupShare:
		return TopicShare
	case GroupPolicy:
		return TopicHowGently
	case GroupParallel, GroupTransfer, GroupCompression:
		return TopicHowFast
	case GroupJob, GroupNotify:
		return TopicService
	case GroupOutput:
		return TopicOutput
	case GroupReading, GroupSelection:
	}
	return TopicWhat
}

// annotations returns what help reads from the flag of o.
func (o *Option) annotations() map[string][]string {
	all := map[string][]string{TopicAnnotation: {string(o.topic())}}
	if o.Rare {
		all[RareAnnotation] = []string{"yes"}
	}
	return all
}
