/**
 * Parses and serializes XML. The parser is strict and namespace-aware, limits size, depth and number of nodes, and
 * rejects document types, so that only the five predefined entities exist. Serialized elements declare their own
 * namespaces.
 */
import type { IncomingMessage } from 'node:http'
import { SaxesParser } from 'saxes'
import { GatewayError } from '../../src/contract/errors.js'
import { withTimeout } from '../lib/request-body.js'
import { HttpError } from './errors.js'

export interface XmlName {
  readonly namespace: string
  readonly name: string
}

interface XmlAttribute extends XmlName {
  readonly prefix: string
  readonly value: string
}

export interface XmlElement extends XmlName {
  readonly prefix: string
  /** Without namespace declarations. */
  readonly attributes: readonly XmlAttribute[]
  readonly children: readonly (XmlElement | string)[]
  /** `xml:lang` of the element or inherited; empty if there is none. */
  readonly language: string
}

export const davNamespace = 'DAV:'
const xmlNamespace = 'http://www.w3.org/XML/1998/namespace'
const declarationNamespace = 'http://www.w3.org/2000/xmlns/'

/**
 * Limits of an XML request body: size in bytes, nesting depth, and number of elements and attributes, which take far
 * more memory than their text.
 */
const sizeLimit = 1024 * 1024
const depthLimit = 64
const nodeLimit = 20_000

/**
 * Reads and parses the request body. Resolves to its root element, or to undefined if the body is empty. Rejects with
 * `too_large` above a limit, with `invalid` for malformed XML, with `aborted` if the client disconnects, with a 400 for
 * a document type, and with a 408 after a timeout.
 */
export async function readXml(request: IncomingMessage): Promise<XmlElement | undefined> {
  const body = await withTimeout(readBounded(request), () => new HttpError('body_timeout'))
  return body.length === 0 ? undefined : parseXml(decode(body))
}

async function readBounded(request: IncomingMessage): Promise<Buffer> {
  const tooLarge = new GatewayError('too_large', { reason: 'the XML body is too large' })
  if (Number(request.headers['content-length'] ?? 0) > sizeLimit) throw tooLarge
  const chunks: Buffer[] = []
  let size = 0
  return new Promise((resolve, reject) => {
    const finish = (outcome: () => void): void => {
      request.off('data', onData).off('end', onEnd).off('close', onClose)
      outcome()
    }
    const onData = (chunk: Buffer): void => {
      size += chunk.length
      if (size > sizeLimit) {
        request.pause() // the rest is drained after the response
        finish(() => reject(tooLarge))
      } else {
        chunks.push(chunk)
      }
    }
    const onEnd = (): void => finish(() => resolve(Buffer.concat(chunks)))
    const onClose = (): void => finish(() => reject(new GatewayError('aborted')))
    request.on('error', () => undefined) // 'close' follows
    request.on('data', onData).on('end', onEnd).on('close', onClose)
  })
}

/** Decodes UTF-8 or UTF-16, which RFC 4918 §8.2 requires. Throws `invalid` for malformed input. */
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
 * Parses a document. Throws `invalid` for malformed XML, `too_large` for too many nodes, and a 400 for a document type.
 */
export function parseXml(text: string): XmlElement {
  const parser = new SaxesParser({ xmlns: true, position: false })
  const open: OpenElement[] = []
  let root: XmlElement | undefined
  let nodes = 0
  const count = (): void => {
    if (++nodes > nodeLimit) throw new GatewayError('too_large', { reason: 'the XML body has too many elements' })
  }
  parser.on('error', (error) => {
    throw malformed(error.message)
  })
  parser.on('doctype', () => {
    throw new HttpError('document_type')
  })
  parser.on('xmldecl', ({ encoding = 'utf-8' }) => {
    if (!/^(utf-8|utf-16|us-ascii)$/i.test(encoding)) throw malformed(`encoding ${encoding}`)
  })
  parser.on('opentagstart', count)
  parser.on('attribute', count)
  parser.on('opentag', ({ prefix, local, uri, attributes }) => {
    if (open.length >= depthLimit) throw malformed('elements are nested too deeply')
    const parent = open.at(-1)
    const ownAttributes = Object.values(attributes).filter((attribute) => attribute.uri !== declarationNamespace)
    const language = ownAttributes.find((attribute) => attribute.uri === xmlNamespace && attribute.local === 'lang')
    open.push({
      namespace: uri,
      name: local,
      prefix,
      attributes: ownAttributes.map((attribute) => ({
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
    else root = element
  })
  parser.write(text).close()
  if (!root) throw malformed('no root element')
  return root
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

/** The text of an element and its descendants. */
export function textOf(element: XmlElement): string {
  return element.children.map((child) => (typeof child === 'string' ? child : textOf(child))).join('')
}

/** Serializes an element with all namespace declarations that it requires. */
export function serialize(element: XmlElement): string {
  return elementText(element, new Map([['', '']]))
}

/** Like `serialize`, for the content of the element. */
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

// Names of backends may contain characters that XML 1.0 cannot represent.
const invalidCharacters = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g

/** Escapes text for element content. Characters that XML cannot represent become U+FFFD. */
export function escapeText(text: string): string {
  if (/^[\w .,:;/()+~-]*$/.test(text)) return text
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('\r', '&#13;')
    .replace(invalidCharacters, '\ufffd')
}

/** Escapes text for an attribute value in double quotes. */
function escapeAttribute(text: string): string {
  return escapeText(text).replaceAll('"', '&quot;').replaceAll('\n', '&#10;').replaceAll('\t', '&#9;')
}

/**
 * Wraps `content`, which is XML already, in an element. A namespace other than `DAV:` is declared with a prefix and not
 * as the default namespace, so that the content keeps its meaning. `language`: the value of `xml:lang`.
 */
export function wrap({ namespace, name }: XmlName, content: string, language = ''): string {
  const tag = namespace === davNamespace ? `D:${name}` : namespace === '' ? name : `N:${name}`
  const declaration = namespace === davNamespace || namespace === '' ? '' : ` xmlns:N="${escapeAttribute(namespace)}"`
  const languageAttribute = language === '' ? '' : ` xml:lang="${escapeAttribute(language)}"`
  return content === ''
    ? `<${tag}${declaration}${languageAttribute}/>`
    : `<${tag}${declaration}${languageAttribute}>${content}</${tag}>`
}

function malformed(why: string): GatewayError {
  return new GatewayError('invalid', { reason: `malformed XML: ${why}` })
}
