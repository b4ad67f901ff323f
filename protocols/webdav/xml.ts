/**
 * XML in and out. In: strict, with namespaces, bounded in size and depth, without document types and so without entities
 * beyond the five. Out: escaping, and elements as text that stands on its own wherever it is put.
 */
import type { IncomingMessage } from 'node:http'
import { SaxesParser } from 'saxes'
import { GatewayError } from '../../src/errors.js'
import { inTime } from '../lib/body.js'
import { Refusal } from './errors.js'

export interface XmlName {
  readonly namespace: string
  readonly name: string
}

export interface XmlAttribute extends XmlName {
  readonly prefix: string
  readonly value: string
}

export interface XmlElement extends XmlName {
  readonly prefix: string
  /** Without namespace declarations. */
  readonly attributes: readonly XmlAttribute[]
  readonly children: readonly (XmlElement | string)[]
  /** `xml:lang` in force; empty for none. */
  readonly language: string
}

export const davNamespace = 'DAV:'
const xmlNamespace = 'http://www.w3.org/XML/1998/namespace'
const declarationNamespace = 'http://www.w3.org/2000/xmlns/'

/**
 * Bytes of a request body that is XML, how deep its elements may stand in each other, and how many of them with their
 * attributes there may be: in memory each takes up far more than on the wire.
 */
const sizeLimit = 1024 * 1024
const depthLimit = 64
const nodeLimit = 20_000

/**
 * The root element of the request's body; undefined where the body is empty. Rejects with `too_large` past 1 MiB, with
 * `invalid` where it is not well-formed XML that we accept, with `aborted` where the client went away,
 * with a refusal where it takes too long.
 */
export async function readXml(request: IncomingMessage): Promise<XmlElement | undefined> {
  const body = await inTime(readBounded(request), () => new Refusal(408, 'the body did not arrive in time'))
  return body.length === 0 ? undefined : parseXml(decode(body))
}

async function readBounded(request: IncomingMessage): Promise<Buffer> {
  const tooLarge = new GatewayError('too_large', { reason: 'the XML body is too large' })
  if (Number(request.headers['content-length'] ?? 0) > sizeLimit) throw tooLarge
  const chunks: Buffer[] = []
  let size = 0
  return new Promise((resolve, reject) => {
    const settle = (outcome: () => void): void => {
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      outcome()
    }
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      if (size > sizeLimit) {
        request.pause() // what is left is drained, within bounds, once the answer is written
        settle(() => reject(tooLarge))
      } else {
        chunks.push(chunk)
      }
    }
    const onEnd = (): void => settle(() => resolve(Buffer.concat(chunks)))
    const onClose = (): void => settle(() => reject(new GatewayError('aborted')))
    request.on('error', () => undefined) // its 'close' follows
    request.on('data', onData).on('end', onEnd).on('close', onClose)
  })
}

/** RFC 4918 §8.2 asks for UTF-8 and UTF-16. */
function decode(body: Buffer): string {
  const mark = body.readUIntBE(0, Math.min(2, body.length))
  const encoding = mark === 0xfeff ? 'utf-16be' : mark === 0xfffe ? 'utf-16le' : 'utf-8'
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(body)
  } catch {
    throw malformed(`not ${encoding.toUpperCase()}`)
  }
}

/**
 * Rejects with `invalid` for anything but one well-formed element, with `too_large` for one of too many, with a refusal for a document
 * type.
 */
export function parseXml(text: string): XmlElement {
  const parser = new SaxesParser({ xmlns: true, position: false })
  const open: OpenElement[] = []
  let top: XmlElement | undefined
  let nodes = 0
  const count = (): void => {
    if (++nodes > nodeLimit) throw new GatewayError('too_large', { reason: 'the XML body has too many elements' })
  }
  parser.on('error', (error) => {
    throw malformed(error.message)
  })
  parser.on('doctype', () => {
    throw new Refusal(400, 'a document type is not accepted', { condition: 'no-external-entities' })
  })
  parser.on('xmldecl', ({ encoding = 'utf-8' }) => {
    if (!/^(utf-8|utf-16|us-ascii)$/i.test(encoding)) throw malformed(`encoding ${encoding}`)
  })
  parser.on('opentagstart', count)
  parser.on('attribute', count)
  parser.on('opentag', ({ prefix, local, uri, attributes }) => {
    if (open.length >= depthLimit) throw malformed('elements stand too deep in each other')
    const parent = open.at(-1)
    const kept = Object.values(attributes).filter((attribute) => attribute.uri !== declarationNamespace)
    const language = kept.find((attribute) => attribute.uri === xmlNamespace && attribute.local === 'lang')
    open.push({
      namespace: uri,
      name: local,
      prefix,
      attributes: kept.map((attribute) => ({
        namespace: attribute.uri,
        name: attribute.local,
        prefix: attribute.prefix,
        value: attribute.value,
      })),
      children: [],
      language: language?.value ?? parent?.language ?? '',
    })
  })
  const addText = (part: string): void => {
    open.at(-1)?.children.push(part)
  }
  parser.on('text', addText)
  parser.on('cdata', addText)
  parser.on('closetag', () => {
    const element = open.pop()
    const parent = open.at(-1)
    if (parent) parent.children.push(element as XmlElement)
    else top = element
  })
  parser.write(text).close()
  if (!top) throw malformed('no element')
  return top
}

interface OpenElement extends XmlElement {
  readonly children: (XmlElement | string)[]
}

export function isElement(node: XmlElement | string, namespace: string, name: string): node is XmlElement {
  return typeof node === 'object' && node.name === name && node.namespace === namespace
}

export function elementsOf(element: XmlElement): readonly XmlElement[] {
  return element.children.filter((child) => typeof child === 'object')
}

/** The first child in `DAV:` with this name. */
export function davChild(element: XmlElement, name: string): XmlElement | undefined {
  return elementsOf(element).find((child) => isElement(child, davNamespace, name))
}

/** All text of an element, also of those within. */
export function textOf(element: XmlElement): string {
  return element.children.map((child) => (typeof child === 'string' ? child : textOf(child))).join('')
}

/** The element as text that needs nothing declared around it. */
export function serialize(element: XmlElement): string {
  return elementText(element, new Map([['', '']]))
}

/** The same of what stands within the element. */
export function serializeContent(element: XmlElement): string {
  return contentText(element, new Map([['', '']]))
}

function elementText(element: XmlElement, outer: ReadonlyMap<string, string>): string {
  const declared = new Map(outer)
  let declarations = ''
  const declare = (prefix: string, namespace: string): void => {
    if (prefix === 'xml' || declared.get(prefix) === namespace) return
    declared.set(prefix, namespace)
    declarations += ` xmlns${prefix === '' ? '' : `:${prefix}`}="${escapeAttribute(namespace)}"`
  }
  declare(element.prefix, element.namespace)
  let attributes = ''
  for (const { prefix, namespace, name, value } of element.attributes) {
    if (prefix !== '') declare(prefix, namespace)
    attributes += ` ${qualified(prefix, name)}="${escapeAttribute(value)}"`
  }
  const tag = qualified(element.prefix, element.name)
  const content = contentText(element, declared)
  return content === ''
    ? `<${tag}${declarations}${attributes}/>`
    : `<${tag}${declarations}${attributes}>${content}</${tag}>`
}

function contentText(element: XmlElement, declared: ReadonlyMap<string, string>): string {
  return element.children
    .map((child) => (typeof child === 'string' ? escapeText(child) : elementText(child, declared)))
    .join('')
}

function qualified(prefix: string, name: string): string {
  return prefix === '' ? name : `${prefix}:${name}`
}

// Names that backends report may hold characters that XML 1.0 cannot carry at all.
// eslint-disable-next-line no-control-regex -- they are what is looked for
const unspeakable = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g

/** Text as it stands between tags; characters that XML cannot hold become U+FFFD. */
export function escapeText(text: string): string {
  if (/^[\w .,:;/()+~-]*$/.test(text)) return text
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('\r', '&#13;')
    .replace(unspeakable, '\ufffd')
}

/** Text as it stands between double quotes. */
export function escapeAttribute(text: string): string {
  return escapeText(text).replaceAll('"', '&quot;').replaceAll('\n', '&#10;').replaceAll('\t', '&#9;')
}

/**
 * An element of any name around content that is XML text already. The namespace is declared on the element with a prefix of
 * its own, so that nothing within changes its meaning.
 */
export function wrap({ namespace, name }: XmlName, content: string, language = ''): string {
  const tag = namespace === davNamespace ? `D:${name}` : namespace === '' ? name : `N:${name}`
  const declaration = namespace === davNamespace || namespace === '' ? '' : ` xmlns:N="${escapeAttribute(namespace)}"`
  const spoken = language === '' ? '' : ` xml:lang="${escapeAttribute(language)}"`
  return content === '' ? `<${tag}${declaration}${spoken}/>` : `<${tag}${declaration}${spoken}>${content}</${tag}>`
}

function malformed(why: string): GatewayError {
  return new GatewayError('invalid', { reason: `malformed XML: ${why}` })
}
