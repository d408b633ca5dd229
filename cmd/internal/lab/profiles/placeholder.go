// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package profiles

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// place is where in the cluster a template is expanded.
type place struct {
	node, zone, driver string
	slice, index       int
}

var placeholder = regexp.MustCompile(`\$\([^)]*\)`)

func (p place) values() map[string]string {
	slice := []string{p.node, p.driver, strconv.Itoa(p.slice)}
	return map[string]string{
		"$(node)":       p.node,
		"$(zone)":       p.zone,
		"$(slice)":      strconv.Itoa(p.slice),
		"$(index)":      strconv.Itoa(p.index),
		"$(uuid)":       uuid(append(slice, strconv.Itoa(p.index))...),
		"$(slice.uuid)": uuid(slice...),
	}
}

// uuid derives the text form of a version 8 UUID from the parts of a name.
func uuid(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	text := hex.EncodeToString(sum[:16])
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-")
}

// expand returns a copy of the template with all placeholders replaced.
func expand[T any](template T, p place) (T, error) {
	var result T
	encoded, err := json.Marshal(template)
	if err != nil {
		return result, fmt.Errorf("encode template: %w", err)
	}
	values := p.values()
	replaced := placeholder.ReplaceAllFunc(encoded, func(name []byte) []byte {
		// No value needs quoting in JSON: they are names and numbers.
		return []byte(values[string(name)])
	})
	if err := json.Unmarshal(replaced, &result); err != nil {
		return result, fmt.Errorf("decode expanded template: %w", err)
	}
	return result, nil
}

func knownPlaceholders(path *field.Path, template any) field.ErrorList {
	encoded, err := json.Marshal(template)
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	known := place{}.values()
	var errs field.ErrorList
	for _, name := range placeholder.FindAllString(string(encoded), -1) {
		if _, ok := known[name]; !ok {
			errs = append(errs, field.Invalid(path, name, "is not a known placeholder"))
		}
	}
	return errs
}
