// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"
	"unicode/utf8"
)

// page collects lines that are no wider than its width. A word that is wider is
// left whole: names must survive being pasted.
type page struct {
	width int
	strings.Builder
}

func (p *page) line(text string) {
	p.WriteString(strings.TrimRight(text, " "))
	p.WriteByte('\n')
}

func (p *page) blank() { p.WriteByte('\n') }

// paragraph writes lead and text, and breaks the text at spaces into lines that
// start below its beginning. Runs of spaces within a line are kept.
func (p *page) paragraph(lead, text string) {
	indent := strings.Repeat(" ", utf8.RuneCountInString(lead))
	if lead == "" {
		indent = "  "
	}
	line := lead
	room := p.width - utf8.RuneCountInString(lead)
	for _, text := range strings.Split(text, "\n") {
		for {
			head, tail := split(text, room)
			p.line(line + head)
			line, room, text = indent, p.width-len(indent), tail
			if text == "" {
				break
			}
		}
	}
}

// split cuts the text at the last space that leaves no more than room columns
// before it, or at the first space when there is none.
func split(text string, room int) (head, tail string) {
	if utf8.RuneCountInString(text) <= room {
		return text, ""
	}
	cut, column := -1, 0
	for i, r := range text {
		if r == ' ' && (cut < 0 || column <= room) {
			cut = i
		}
		if column > room && cut >= 0 {
			break
		}
		column++
	}
	if cut < 0 {
		return text, ""
	}
	return strings.TrimRight(text[:cut], " "), strings.TrimLeft(text[cut:], " ")
}
