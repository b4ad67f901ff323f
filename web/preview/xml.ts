/** XML of others, read within bounds. */
import { SaxesParser } from 'saxes'
import { PreviewFailure } from './failure.ts'
import { Steps } from './steps.ts'

const deepest = 256
/** Bytes that are parsed at once. */
const pieceSize = 2 ** 16

export interface XmlReader {
  /** `name` is without a prefix. */
  readonly open?: (name: string, attributes: Readonly<Record<string, string>>) => void
  readonly text?: (text: string) => void
  /** Returns true to stop. */
  readonly close?: (name: string) => boolean
}

/**
 * Reads XML in steps, to its end or until `close` returns true. Rejects with a `PreviewFailure` if it is not well
 * formed, is too deep, or has a document type, which no XML of Office has (ECMA-376 part 2, 6.2.5).
 */
export async function readXml(bytes: Uint8Array, { open, text, close }: XmlReader): Promise<void> {
  const parser = new SaxesParser()
  const steps = new Steps()
  const state = { depth: 0, isStopped: false }
  parser.on('error', refuse)
  parser.on('doctype', refuse)
  parser.on('opentag', ({ name, attributes }) => {
    if (++state.depth > deepest) refuse()
    if (!state.isStopped) open?.(localName(name), attributes)
  })
  parser.on('text', (part) => state.isStopped || text?.(part))
  parser.on('cdata', (part) => state.isStopped || text?.(part))
  parser.on('closetag', ({ name }) => {
    state.depth--
    if (!state.isStopped) state.isStopped = close?.(localName(name)) === true
  })
  const decoder = new TextDecoder(encodingOf(bytes))
  for (let start = 0; start < bytes.length; start += pieceSize) {
    parser.write(decoder.decode(bytes.subarray(start, start + pieceSize), { stream: true }))
    if (state.isStopped) return
    await steps.pause()
  }
  parser.write(decoder.decode())
  parser.close()
}

function refuse(): never {
  throw new PreviewFailure('damaged')
}

function localName(name: string): string {
  return name.slice(name.indexOf(':') + 1)
}

/** The value of an attribute, whatever its prefix is. */
export function attribute(attributes: Readonly<Record<string, string>>, name: string): string | undefined {
  const key = Object.keys(attributes).find((each) => localName(each) === name)
  return key === undefined ? undefined : attributes[key]
}

function encodingOf([first, second]: Uint8Array): string {
  if (first === 0xff && second === 0xfe) return 'utf-16le'
  return first === 0xfe && second === 0xff ? 'utf-16be' : 'utf-8'
}

/**
 * A document of XML or, if it is not well formed and `orHtml` is true, of HTML. It runs nothing and loads nothing.
 * Throws a `PreviewFailure`.
 */
export function parsedDocument(bytes: Uint8Array, orHtml = false): Document {
  const text = new TextDecoder(encodingOf(bytes)).decode(bytes)
  // Entities of the document itself can be of any size.
  if (/<!entity/i.test(text)) throw new PreviewFailure('damaged')
  const parser = new DOMParser()
  const content = orHtml ? withoutHandlers(text) : text
  const xml = parser.parseFromString(content, orHtml ? 'application/xhtml+xml' : 'application/xml')
  const isBroken = xml.getElementsByTagName('parsererror').length > 0
  if (isBroken && !orHtml) throw new PreviewFailure('damaged')
  const parsed = isBroken ? parser.parseFromString(content, 'text/html') : xml
  if (isTooDeep(parsed)) throw new PreviewFailure('damaged')
  return parsed
}

/** The browser reports handlers and base addresses as violations of the policy, also where nothing runs. */
function withoutHandlers(html: string): string {
  return html.replaceAll(/<base\b[^>]*>|<[a-z](?:[^<>"']|"[^"]*"|'[^']*')*>/gi, (tag) =>
    /^<base\b/i.test(tag) ? '' : tag.replaceAll(/\son\w+\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'>]+)/gi, ''),
  )
}

function isTooDeep(root: Document): boolean {
  const walker = root.createTreeWalker(root, NodeFilter.SHOW_ELEMENT)
  let depth = 1
  while (depth <= deepest) {
    if (walker.firstChild()) depth++
    else {
      while (!walker.nextSibling()) {
        if (!walker.parentNode()) return false
        depth--
      }
    }
  }
  return true
}
