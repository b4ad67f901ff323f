/** The name of a fetched file: as the server tells it, else as its address does, made harmless. */

/** Bytes that a name may have on most storages. */
const longest = 255
const fallback = 'download'

/** Characters that no name needs: controls, and those that turn the direction of the text around them. */
const harmful = /[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/** `disposition`: the header Content-Disposition, byte by byte as Node gives it. A single name that can be given to anything new. */
export function fileNameOf(disposition: string | undefined, url: URL): string {
  const told = disposition === undefined ? undefined : namedBy(disposition)
  return harmless(told ?? '') ?? harmless(lastSegment(url)) ?? fallback
}

/** RFC 6266 §4.3: `filename*` before `filename`. */
function namedBy(disposition: string): string | undefined {
  const parameters = parametersOf(disposition)
  return extended(parameters.get('filename*')) ?? plain(parameters.get('filename'))
}

/** RFC 6266 §4.1; of one that comes twice the first. */
function parametersOf(disposition: string): ReadonlyMap<string, string> {
  const parameter = /;\s*([^\s=;"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]*))/g
  const found = new Map<string, string>()
  for (const [, name = '', quoted, token = ''] of disposition.matchAll(parameter)) {
    const key = name.toLowerCase()
    const value = quoted === undefined ? token.trim() : quoted.replace(/\\(.)/g, '$1')
    if (!found.has(key)) found.set(key, value)
  }
  return found
}

/** RFC 8187 §3.2.1: charset, language, percent-encoded bytes. */
function extended(value: string | undefined): string | undefined {
  const [, charset = '', encoded = ''] = /^([^']*)'[^']*'(.*)$/.exec(value ?? '') ?? []
  if (encoded === '' || /%(?![0-9a-f]{2})/i.test(encoded)) return undefined
  const bytes = Buffer.from(
    encoded.replace(/%(..)/g, (_escape, digits: string) => String.fromCharCode(Number.parseInt(digits, 16))),
    'latin1',
  )
  if (charset.toLowerCase() === 'iso-8859-1') return bytes.toString('latin1')
  return charset.toLowerCase() === 'utf-8' ? utf8(bytes) : undefined
}

/** Servers send UTF-8 where they should not; what is none is taken for Latin-1. */
function plain(value: string | undefined): string | undefined {
  return value === undefined ? undefined : (utf8(Buffer.from(value, 'latin1')) ?? value)
}

function utf8(bytes: Buffer): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

function lastSegment({ pathname }: URL): string {
  const segment = pathname.slice(pathname.lastIndexOf('/') + 1)
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/** Without folders, and what else no name may hold; undefined where nothing is left. */
function harmless(text: string): string | undefined {
  const [name = ''] = text.toWellFormed().replace(harmful, '').split(/[/\\]/).slice(-1)
  const trimmed = name.trim()
  if (trimmed === '' || /^\.+$/.test(trimmed)) return undefined
  // Names that begin like this are the gateway's own.
  return shortened(trimmed.replace(/^\.(?=tidegate-)/i, '_'))
}

/** The end tells what kind of file it is. */
function shortened(name: string): string {
  if (Buffer.byteLength(name) <= longest) return name
  const end = /\.[^.]{1,16}$/.exec(name)?.[0] ?? ''
  let start = name.slice(0, name.length - end.length)
  while (Buffer.byteLength(start + end) > longest) start = start.slice(0, -1)
  // Half of a character that takes two units may be left.
  return (start.isWellFormed() ? start : start.slice(0, -1)) + end
}
