/** The sanitized name of a downloaded file: from the response header, else from the URL. */
import { decodeUtf8, headerText, percentDecoded } from '../base/utf8.js'

/** Maximum length of a name in bytes on most storages. */
const maxBytes = 255
const fallback = 'download'

/** Characters to remove: controls, bidirectional formatting characters, and U+FFFD, which no new name may hold. */
const unsafe = /[\p{Cc}\ufffd\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu

/**
 * `disposition`: the header Content-Disposition, as Latin-1 as Node returns it. The result is a valid name without a
 * path.
 */
export function fileNameOf(disposition: string | undefined, url: URL): string {
  const suggested = disposition === undefined ? undefined : dispositionName(disposition)
  return sanitized(suggested ?? '') ?? sanitized(lastSegment(url)) ?? fallback
}

/** `filename*` takes precedence over `filename` (RFC 6266 §4.3). */
function dispositionName(disposition: string): string | undefined {
  const parameters = parametersOf(disposition)
  return extended(parameters.get('filename*')) ?? plain(parameters.get('filename'))
}

/** The parameters (RFC 6266 §4.1). The first of duplicate parameters counts. */
function parametersOf(disposition: string): ReadonlyMap<string, string> {
  const parameter = /;\s*([^\s=;"]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]*))/g
  const parameters = new Map<string, string>()
  for (const [, name = '', quoted, token = ''] of disposition.matchAll(parameter)) {
    const key = name.toLowerCase()
    const value = quoted === undefined ? token.trim() : quoted.replace(/\\(.)/g, '$1')
    if (!parameters.has(key)) parameters.set(key, value)
  }
  return parameters
}

/** Decodes an extended value (RFC 8187 §3.2.1): charset, language, percent-encoded bytes. */
function extended(value: string | undefined): string | undefined {
  const [, charset = '', encoded = ''] = /^([^']*)'[^']*'(.*)$/.exec(value ?? '') ?? []
  if (encoded === '' || /%(?![0-9a-f]{2})/i.test(encoded)) return undefined
  const bytes = Buffer.from(
    encoded.replace(/%(..)/g, (_escape, digits: string) => String.fromCharCode(Number.parseInt(digits, 16))),
    'latin1',
  )
  if (charset.toLowerCase() === 'iso-8859-1') return bytes.toString('latin1')
  return charset.toLowerCase() === 'utf-8' ? decodeUtf8(bytes) : undefined
}

/** Decodes a plain value. Many servers send UTF-8; anything else is decoded as Latin-1. */
function plain(value: string | undefined): string | undefined {
  return value === undefined ? undefined : headerText(value)
}

function lastSegment({ pathname }: URL): string {
  const segment = pathname.slice(pathname.lastIndexOf('/') + 1)
  return percentDecoded(segment) ?? segment
}

/** The last path segment without unsafe characters; undefined if nothing remains. */
function sanitized(text: string): string | undefined {
  const [name = ''] = text.toWellFormed().replace(unsafe, '').split(/[/\\]/).slice(-1)
  const trimmed = name.trim()
  if (trimmed === '' || /^\.+$/.test(trimmed)) return undefined
  // The prefix `.tidegate-` is reserved for the gateway.
  return shortened(trimmed.replace(/^\.(?=tidegate-)/i, '_'))
}

/** Shortens a name to `maxBytes`, and preserves its extension. */
function shortened(name: string): string {
  if (Buffer.byteLength(name) <= maxBytes) return name
  const extension = /\.[^.]{1,16}$/.exec(name)?.[0] ?? ''
  let stem = name.slice(0, name.length - extension.length)
  while (Buffer.byteLength(stem + extension) > maxBytes) stem = stem.slice(0, -1)
  // The cut may have split a surrogate pair.
  return (stem.isWellFormed() ? stem : stem.slice(0, -1)) + extension
}
