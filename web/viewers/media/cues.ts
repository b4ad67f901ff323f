/**
 * Subtitles as cues of plain text, from SubRip (.srt), WebVTT (.vtt) and Advanced SubStation Alpha (.ass, .ssa). Files
 * of others: markup is removed, and what remains is text, whatever it looks like.
 */

export interface Cue {
  /** Seconds from the beginning of the film. */
  readonly start: number
  readonly end: number
  readonly text: string
}

/** What is read of a file: the most bytes and the most cues, and the most characters of one cue. */
export const longestSubtitles = 4 * 2 ** 20
const mostCues = 20_000
const longestCue = 1000

/** The extensions of files that have subtitles. */
export const subtitleExtensions: readonly string[] = ['vtt', 'srt', 'ass', 'ssa']

/** The cues in the order of the file. What is none is left out. `name`: of the file, whose extension is its format. */
export function cuesIn(name: string, text: string): readonly Cue[] {
  const lines = text.replace(/^\ufeff/, '').split(/\r\n|\r|\n/)
  const cues = /\.(?:ass|ssa)$/i.test(name) ? cuesOfScript(lines) : cuesOfBlocks(lines, /\.vtt$/i.test(name))
  return cues
    .filter(({ start, end, text }) => end > start && text !== '')
    .slice(0, mostCues)
    .map((cue) => ({ ...cue, text: cue.text.slice(0, longestCue) }))
}

/** SubRip and WebVTT: a line with two times, then the text up to an empty line. */
function cuesOfBlocks(lines: readonly string[], isWebVtt: boolean): Cue[] {
  const cues: Cue[] = []
  for (let at = 0; at < lines.length; at++) {
    const times = /^\s*([\d:.,]{5,16})\s+-->\s+([\d:.,]{5,16})(?:\s|$)/.exec(lines[at] ?? '')
    if (!times) continue
    const from = ++at
    while (at < lines.length && lines[at]?.trim() !== '') at++
    const text = lines.slice(from, at).join('\n')
    cues.push({
      start: secondsOf(times[1]),
      end: secondsOf(times[2]),
      text: isWebVtt ? plainWebVtt(text) : plain(text),
    })
  }
  return cues
}

/** The lines `Dialogue: layer,start,end,…,text` of a script, whose fields the last `Format:` before them names. */
function cuesOfScript(lines: readonly string[]): Cue[] {
  const cues: Cue[] = []
  let fields = ['layer', 'start', 'end', 'style', 'name', 'marginl', 'marginr', 'marginv', 'effect', 'text']
  for (const line of lines) {
    const [, kind = '', rest = ''] = /^(Format|Dialogue):(.*)$/i.exec(line) ?? []
    if (kind.toLowerCase() === 'format') fields = rest.split(',').map((field) => field.trim().toLowerCase())
    if (kind.toLowerCase() !== 'dialogue') continue
    const values = rest.split(',')
    const valueOf = (field: string) => values[fields.indexOf(field)]?.trim()
    // The text is the last field, and may have commas.
    const text = values.slice(fields.length - 1).join(',')
    cues.push({ start: secondsOf(valueOf('start')), end: secondsOf(valueOf('end')), text: plainScript(text) })
  }
  // They may be in any order.
  return cues.sort((one, other) => one.start - other.start)
}

/** `1:02:03.456`, `02:03,4` and the like in seconds; NaN if it is no time. */
function secondsOf(time = ''): number {
  const parts = /^(?:(\d{1,3}):)?(\d{1,2}):(\d{1,2})(?:[.,](\d{1,3}))?$/.exec(time)
  if (!parts) return NaN
  const [, hours = 0, minutes, seconds, fraction = 0] = parts
  return Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds) + Number(`0.${fraction}`)
}

/** SubRip has a few elements of HTML, and commands of the other format. */
function plain(text: string): string {
  return text.replaceAll(/<\/?(?:b|i|u|s|font)(?:\s[^<>]*)?>|\{\\[^{}]*\}/gi, '').trim()
}

const references: Readonly<Record<string, string>> = {
  '&lt;': '<',
  '&gt;': '>',
  '&nbsp;': '\u00a0',
  '&lrm;': '\u200e',
  '&rlm;': '\u200f',
  '&amp;': '&',
}

/** WebVTT has spans, voices and times within a text (W3C WebVTT, section 4.2.2). */
function plainWebVtt(text: string): string {
  return text
    .replaceAll(/<(?:\/?(?:b|i|u|c|v|lang|ruby|rt)(?:[.\s][^<>]*)?|[\d:.]+)>/g, '')
    .replaceAll(/&(?:lt|gt|nbsp|lrm|rlm|amp);/g, (reference) => references[reference] ?? reference)
    .trim()
}

/** Without commands in braces. A text that draws shapes is none. */
function plainScript(text: string): string {
  if (/\\p[1-9]/.test(text)) return ''
  return text
    .replaceAll(/\{[^{}]*\}/g, '')
    .replaceAll(/\\[Nn]/g, '\n')
    .replaceAll('\\h', '\u00a0')
    .trim()
}

/** The text of a cue as `VTTCue` takes it, which shows it as it is. */
export function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}
