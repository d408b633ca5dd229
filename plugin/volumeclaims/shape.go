// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package volumeclaims

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	maxUtilization = 100
	maxShapeScore  = 10
)

// shape is a piecewise linear function from utilization in percent to a score
// between fwk.MinScore and fwk.MaxScore. It has at least one point, and
// its points are in strictly increasing order of utilization.
type shape []ShapePoint

// score rounds towards the score of the point before.
func (s shape) score(utilization int64) int64 {
	const scale = fwk.MaxScore / maxShapeScore
	for i, next := range s {
		if utilization > int64(next.Utilization) {
			continue
		}
		if i == 0 || utilization == int64(next.Utilization) {
			return int64(next.Score) * scale
		}
		before := s[i-1]
		rise := (int64(next.Score) - int64(before.Score)) * scale
		run := int64(next.Utilization) - int64(before.Utilization)
		return int64(before.Score)*scale + rise*(utilization-int64(before.Utilization))/run
	}
	return int64(s[len(s)-1].Score) * scale
}

// validShape takes no points for "not set".
func validShape(path *field.Path, points []ShapePoint) field.ErrorList {
	var errs field.ErrorList
	for i, point := range points {
		path := path.Index(i)
		if point.Utilization < 0 || point.Utilization > maxUtilization {
			errs = append(errs, field.Invalid(path.Child("utilization"), point.Utilization, "must be from 0 to 100"))
		}
		if point.Score < 0 || point.Score > maxShapeScore {
			errs = append(errs, field.Invalid(path.Child("score"), point.Score, "must be from 0 to 10"))
		}
		if i > 0 && point.Utilization <= points[i-1].Utilization {
			errs = append(errs, field.Invalid(path.Child("utilization"), point.Utilization, "must be more than that of the point before"))
		}
	}
	return errs
}
