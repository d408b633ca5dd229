// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package reason

import (
	"fmt"
	"strings"
)

// Sentence says the reason in one plain sentence with its values, without a
// full stop and with a small first letter, so that it can follow a word of the
// caller's ("Pending: ..."). A fact that the rejection lacks is left out of it.
func (r *Rejection) Sentence() string {
	say, ok := sentences[r.Code]
	if !ok {
		return r.Code.status()
	}
	return say(r)
}

// sentences has every code of the closed list.
var sentences = map[Code]func(r *Rejection) string{
	ClaimNotCreated: func(r *Rejection) string {
		return r.claim() + " has not been created from its template yet"
	},
	ClaimNotFound: func(r *Rejection) string { return r.claim() + " does not exist" },
	ClaimDeleting: func(r *Rejection) string { return r.claim() + " is being deleted" },
	ClaimNotOwned: func(r *Rejection) string { return r.claim() + " was created for another pod" },
	ClaimFull: func(r *Rejection) string {
		return r.claim() + " is already reserved for the most pods it may have" + r.had(" (%s)")
	},
	ClaimElsewhere: func(r *Rejection) string {
		if r.Facts.Feature != "" {
			return r.claim() + " is allocated and its devices cannot be used on " + r.place() + ": they " + r.Facts.Feature
		}
		return r.claim() + " is allocated and its devices cannot be reached from " + r.place() + r.values(", only from nodes with %s")
	},
	DevicesNotReady: func(r *Rejection) string {
		return "devices of " + r.claim() + " did not become ready" + r.detail()
	},
	DeviceClassNotFound: func(r *Rejection) string {
		return "DeviceClass " + r.class() + " does not exist" + r.askedBy()
	},
	SelectorInvalid: func(r *Rejection) string {
		return "a CEL selector of " + r.culprit() + " does not compile" + r.field()
	},
	SelectorFailed: func(r *Rejection) string {
		return "a CEL selector failed on a device of " + r.place() + " and " + r.request() + " needs to know about all of them"
	},
	AttributeInvalid: func(r *Rejection) string {
		return "derived attribute " + r.attribute() + " of " + r.request() + " of " + r.claim() + " does not compile" + r.field()
	},
	AttributeFailed: func(r *Rejection) string {
		return "derived attribute " + r.attribute() + " of " + r.request() + " failed on a device of " + r.place() + r.detail()
	},
	ClaimUnsupported: func(r *Rejection) string {
		return r.claim() + " asks for " + r.Feature() + ", which is not supported" + r.detail()
	},
	ClaimTooLarge: func(r *Rejection) string {
		return r.claim() + " wants " + r.wantedDevices("more devices than it may hold") + r.had(", a claim may hold %s") + r.on()
	},
	NoDeviceOfClass: func(r *Rejection) string {
		return r.place() + " has no device of class " + r.class() + r.wantedBy()
	},
	ExtendedClaimLeft: func(r *Rejection) string {
		return r.claim() + ", which an earlier attempt has made for the pod's extended resources, has to be deleted first"
	},
	ExtendedResourceMapped: func(r *Rejection) string {
		resource := r.Request
		if resource == "" {
			resource = "the pod's extended resources"
		}
		return r.place() + " would serve " + resource + " without a claim, but the pod's status already names " + r.claim() + " for that, which cannot be taken back"
	},
	DevicesUnsupported: func(r *Rejection) string {
		needs := "they need something that is not supported"
		if r.Facts.Feature != "" {
			needs = "they " + r.Facts.Feature
		}
		return "devices of class " + r.class() + r.on() + " cannot be used: " + needs
	},
	CountersShort: func(r *Rejection) string {
		return "too little of the shared counters is left" + r.on() + ": " + r.wanting()
	},
	CountersUnknown: func(r *Rejection) string {
		return "what is left of the shared counters of pool " + r.object() +
			" cannot be known while devices are in use that it no longer publishes" + r.detail()
	},
	CapacityShort: func(r *Rejection) string {
		return "too little capacity of the devices that may be shared is left" + r.on() + ": " + r.wanting()
	},
	CapacityInvalid: func(r *Rejection) string {
		return "the capacity that " + r.request() + " would consume" + r.on() + " cannot be computed" + r.detail()
	},
	NotEnoughDevices: func(r *Rejection) string {
		if d := r.Facts.Devices; d != nil && d.Match == 0 && r.Facts.Expression != "" {
			return "no device of class " + r.class() + r.on() + " matches " + r.request() + ", a selector fails" + r.detail()
		}
		if d := r.Facts.Devices; d != nil && d.Match == 0 {
			return "no device of class " + r.class() + r.on() + " matches " + r.request()
		}
		had := "too few free devices"
		if r.Facts.Had != nil {
			had = plural(r.Facts.Had.Value(), "free device")
		}
		return r.place() + " has " + had + " of class " + r.class() + " for " + r.request() + r.wanted(", which wants %s", "")
	},
	DevicesShared: func(r *Rejection) string {
		if len(r.Facts.Requests) < 2 {
			return r.requests() + " wants " + r.wantedDevices("devices") + r.on() + ", and other requests want the same"
		}
		return r.requests() + " together want " + r.wantedDevices("more devices") + r.on() + r.had(", and %s can be had")
	},
	DevicesNominated: func(r *Rejection) string {
		return "the free devices" + r.on() + " that " + r.claim() + " could have are kept for pod " + r.object() + ", which is nominated for " + r.place()
	},
	NominationPending: func(r *Rejection) string {
		return "others are about to be evicted from " + r.place() + " for pod " + r.object() + ", which is nominated for it, and it is not known yet what that leaves for " + r.claim()
	},
	ConstraintUnmet: func(r *Rejection) string {
		verb := " want "
		if len(r.Facts.Requests) < 2 {
			verb = " wants "
		}
		return r.requests() + verb + r.wantedDevices("devices") + r.relation() + r.on() +
			r.had(", and at most %s can be had")
	},
	PoolIncomplete: func(r *Rejection) string {
		return "pool " + r.object() + " is being updated by its driver" + r.progress() + r.on()
	},
	PoolInvalid: func(r *Rejection) string {
		return "pool " + r.object() + " is invalid" + r.on() + r.detail()
	},
	SearchEnded: func(r *Rejection) string {
		text := "the search for devices " + strings.TrimPrefix(r.on(), " ")
		if r.Node == "" {
			text = "the search for devices"
		}
		if r.Facts.Steps != 0 {
			return fmt.Sprintf("%s ended after %d steps without an answer", text, r.Facts.Steps)
		}
		return text + " ended without an answer"
	},

	VolumeClaimNotCreated: func(r *Rejection) string {
		return r.claim() + " of an ephemeral volume has not been created yet"
	},
	VolumeClaimNotFound: func(r *Rejection) string { return r.claim() + " does not exist" },
	VolumeClaimDeleting: func(r *Rejection) string { return r.claim() + " is being deleted" },
	VolumeClaimLost:     func(r *Rejection) string { return r.claim() + " has lost its volume" },
	VolumeClaimNotOwned: func(r *Rejection) string {
		return r.claim() + " of an ephemeral volume belongs to another pod"
	},
	VolumeClaimUnbound: func(r *Rejection) string {
		if r.Facts.Detail != "" {
			return r.claim() + " is not bound yet" + r.detail()
		}
		return r.claim() + " is not bound yet and its class " + r.class() + " binds immediately"
	},
	VolumeClaimUnsupported: func(r *Rejection) string {
		feature := "something"
		if r.Facts.Feature != "" {
			feature = r.Facts.Feature
		}
		return r.claim() + " asks for " + feature + ", which is not supported" + r.field()
	},
	StorageClassNotFound: func(r *Rejection) string {
		return "StorageClass " + r.class() + " of " + r.claim() + " does not exist"
	},
	VolumeNotFound: func(r *Rejection) string {
		return "PersistentVolume " + r.object() + ", to which " + r.claim() + " is bound, does not exist"
	},
	VolumeInvalid: func(r *Rejection) string {
		return "PersistentVolume " + r.object() + " has a node affinity that cannot be followed" + r.detail()
	},
	VolumeElsewhere: func(r *Rejection) string {
		return "PersistentVolume " + r.object() + " of " + r.claim() + " cannot be reached from " + r.place() + r.values(", only from %s")
	},
	NoVolume: func(r *Rejection) string {
		return "no PersistentVolume of class " + r.class() + " that " + r.place() + " can reach fits " + r.claim() +
			r.wanted(", which wants %s", "") + r.had(" (the largest free one has %s)")
	},
	VolumesShared: func(r *Rejection) string {
		return "the claims of the pod would each find a PersistentVolume" + r.on() + " alone, but not all of them together"
	},
	TopologyNotAllowed: func(r *Rejection) string {
		return "StorageClass " + r.class() + " of " + r.claim() + " does not provision for " + r.place() + r.values(", only for %s")
	},
	NotEnoughStorage: func(r *Rejection) string {
		if limit := r.Facts.Limit; limit != nil {
			return "no volume of class " + r.class() + " for " + r.place() + " can be larger than " + limit.String() +
				r.wanted(", "+r.claim()+" wants %s", "")
		}
		return "class " + r.class() + " has too little free storage for " + r.place() + ": " + r.claim() +
			r.wanted(" wants %s", " wants more") + r.had(", %s are free")
	},
	SelectedNodeElsewhere: func(r *Rejection) string {
		return r.claim() + " is being provisioned for another node" + r.objectNode()
	},
	SelectedNodeGone: func(r *Rejection) string {
		return r.claim() + " is pinned to a node that does not exist" + r.objectNode()
	},
	NodeRefused: func(r *Rejection) string {
		return "the provisioner of " + r.claim() + " has refused " + r.place() + ", other nodes are tried first"
	},
}

func (r *Rejection) claim() string {
	kind := r.Claim.Kind
	if kind == "" {
		kind = "claim"
	}
	if r.Claim.Name == "" {
		return "a " + kind
	}
	return kind + " " + r.Claim.String()
}

// Feature is what was asked for that is not supported, with the name of the
// field that asks for it: "alternatives (firstAvailable)".
func (r *Rejection) Feature() string {
	feature := r.Facts.Feature
	if feature == "" {
		feature = "something"
	}
	if name := r.Facts.Field[strings.LastIndex(r.Facts.Field, ".")+1:]; name != "" {
		feature += " (" + name + ")"
	}
	return feature
}

func (r *Rejection) request() string {
	if r.Request == "" {
		return "the request"
	}
	return fmt.Sprintf("request %q", r.Request)
}

func (r *Rejection) requests() string {
	if len(r.Facts.Requests) < 2 {
		if r.Request != "" {
			return r.request() + " of " + r.claim()
		}
		return "the requests of " + r.claim()
	}
	return "requests " + strings.Join(r.Facts.Requests, ", ")
}

// relation says what a constraint wants of devices.
func (r *Rejection) relation() string {
	switch r.Facts.Constraint {
	case "distinctAttribute":
		return " with different " + r.attribute()
	case "compatibilityGroups":
		return " with a compatibility group in common in counter set " + r.attribute()
	}
	return " with the same " + r.attribute()
}

// wanting says who wants how much, and how much of it can be had.
func (r *Rejection) wanting() string {
	verb := " want "
	if len(r.Facts.Requests) < 2 {
		verb = " wants "
	}
	return r.requests() + verb + r.wantedDevices("devices") + r.had(", and %s can be had")
}

func (r *Rejection) place() string {
	if r.Node == "" {
		return "the node"
	}
	return "node " + r.Node
}

func (r *Rejection) on() string {
	if r.Node == "" {
		return ""
	}
	return " on node " + r.Node
}

func (r *Rejection) class() string { return orUnnamed(r.Facts.Class) }

func (r *Rejection) object() string { return orUnnamed(r.Facts.Object.String()) }

func (r *Rejection) attribute() string { return orUnnamed(r.Facts.Attribute) }

func orUnnamed(name string) string {
	if name == "" {
		return "(unnamed)"
	}
	return name
}

func (r *Rejection) culprit() string {
	if r.Facts.Object.Name != "" {
		return r.Facts.Object.Kind + " " + r.Facts.Object.String()
	}
	return r.claim()
}

func (r *Rejection) askedBy() string {
	if r.Request == "" {
		return ""
	}
	return ", " + r.request() + " of " + r.claim() + " asks for it"
}

func (r *Rejection) wantedBy() string {
	if r.Request == "" {
		return ""
	}
	return ", " + r.request() + " wants" + r.wanted(" %s", " one")
}

func (r *Rejection) field() string {
	if r.Facts.Field == "" {
		return ""
	}
	return " (" + r.Facts.Field + ")"
}

func (r *Rejection) detail() string {
	if r.Facts.Detail == "" {
		return ""
	}
	line, _, _ := strings.Cut(r.Facts.Detail, "\n")
	return ": " + line
}

func (r *Rejection) wanted(format, without string) string {
	if r.Facts.Wanted == nil {
		return without
	}
	return fmt.Sprintf(format, r.amount(r.Facts.Wanted))
}

func (r *Rejection) wantedDevices(without string) string {
	if r.Facts.Wanted == nil {
		return without
	}
	return plural(r.Facts.Wanted.Value(), "device")
}

func plural(n int64, thing string) string {
	switch n {
	case 0:
		return "no " + thing
	case 1:
		return "1 " + thing
	default:
		return fmt.Sprintf("%d %ss", n, thing)
	}
}

func (r *Rejection) had(format string) string {
	if r.Facts.Had == nil {
		return ""
	}
	return fmt.Sprintf(format, r.amount(r.Facts.Had))
}

func (r *Rejection) progress() string {
	if r.Facts.Wanted == nil || r.Facts.Had == nil {
		return ""
	}
	return fmt.Sprintf(" (generation %d, %s of %s slices)", r.Facts.Generation, r.amount(r.Facts.Had), r.amount(r.Facts.Wanted))
}

func (r *Rejection) values(format string) string {
	if len(r.Facts.Values) == 0 {
		return ""
	}
	text := strings.Join(r.Facts.Values, ", ")
	if r.Facts.Attribute != "" {
		text = r.Facts.Attribute + " " + text
	}
	return fmt.Sprintf(format, text)
}

func (r *Rejection) objectNode() string {
	if r.Facts.Object.Name == "" {
		return ""
	}
	return ", " + r.Facts.Object.String()
}
