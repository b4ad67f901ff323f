/**
 * Parses and serializes XML. The parser is strict and namespace-aware, limits size, depth and number of nodes, and
 * rejects document types, so that only the five predefined entities exist. Serialized elements declare their own
 * namespaces, and their size is limited while they are serialized.
 */
import type { IncomingMessage } from 'node:http'
import type { Readable } from 'node:stream'
import { SaxesParser } from 'saxes'
import { GatewayError } from '../../src/base/errors.js'
import { ownTurn } from '../../src/base/pauses.js'
import { bodySource, withTimeout } from '../lib/request-body.js'
import { WebdavError } from './errors.js'

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
  /** The attributes without namespace declarations. */
  readonly attributes: readonly XmlAttribute[]
  readonly children: readonly (XmlElement | string)[]
  /** `xml:lang` of the element or inherited; empty if there is none. */
  readonly language: string
}

export const davNamespace = 'DAV:'
const xmlNamespace = 'http://www.w3.org/XML/1998/namespace'
const declarationNamespace = 'http://www.w3.org/2000/xmlns/'

/**
 * Limits of an XML request body: size in bytes, nesting depth, and number of nodes, which take far more memory and time
 * than their text. Nodes are elements, attributes, texts, CDATA sections, comments, processing instructions and
 * references.
 */
const sizeLimit = 1024 * 1024
const depthLimit = 64
const nodeLimit = 20_000

/** Number of characters that are parsed in one turn of the event loop. */
const pieceSize = 16 * 1024

/**
 * Reads and parses the request body. Resolves to its root element, or to undefined if the body is empty. Rejects with
 * `too_large` above a limit, with `invalid` for malformed XML, with `aborted` if the client disconnects, with a 400 for
 * a document type, and with a 408 after a timeout.
 */
export async function readXml(request: IncomingMessage): Promise<XmlElement | undefined> {
  const stream = await bodySource(request, { joinsChunks: true }).read()
  let body: Buffer
  try {
    body = await withTimeout(readBounded(request, stream), () => new WebdavError('body_timeout'))
  } finally {
    // The rest of the request can be drained.
    stream.destroy()
  }
  if (body.length === 0) return undefined
  const text = decode(body)
  const document = new DocumentParser()
  for (let at = 0; at < text.length; at += pieceSize) {
    if (at > 0) await ownTurn()
    document.write(text.slice(at, at + pieceSize))
  }
  return document.end()
}

async function readBounded(request: IncomingMessage, stream: Readable): Promise<Buffer> {
  const tooLarge = new GatewayError('too_large', { reason: 'the XML body is too large' })
  if (Number(request.headers['content-length'] ?? 0) > sizeLimit) throw tooLarge
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    size += chunk.length
    if (size > sizeLimit) throw tooLarge
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/**
 * Decodes UTF-8 or UTF-16, which RFC 4918 §8.2 requires, or the encoding that the XML declaration names, as Apache and
 * sabre/dav do. Throws `invalid` for an unknown encoding and for malformed input.
 */
function decode(body: Buffer): string {
  const encoding = encodingOf(body)
  try {
    return new TextDecoder(encoding, { fatal: true }).decode(body)
  } catch {
    throw malformed(`not ${encoding.toUpperCase()}`)
  }
}

/**
 * A byte order mark precedes the declaration (XML 1.0, appendix F). Without one, an encoding is a superset of ASCII.
 */
function encodingOf(body: Buffer): string {
  const mark = body.readUIntBE(0, Math.min(2, body.length))
  if (mark === 0xfeff) return 'utf-16be'
  if (mark === 0xfffe) return 'utf-16le'
  const [, declared = 'utf-8'] = xmlDeclaration.exec(body.toString('latin1', 0, 200)) ?? []
  // A declaration that can be read as ASCII is not in UTF-16.
  return /^utf-16/i.test(declared) ? 'utf-8' : declared
}

const xmlDeclaration = /^<\?xml\s[^>]*?\bencoding\s*=\s*["']([\w.:-]+)["']/

/** Parses a document at once. Throws as `readXml` rejects. */
export function parseXml(text: string): XmlElement {
  const document = new DocumentParser()
  document.write(text)
  return document.end()
}

/** Parses one document, which it receives in pieces. */
class DocumentParser {
  readonly #parser = new SaxesParser({ xmlns: true, position: false })
  readonly #open: OpenElement[] = []
  #root: XmlElement | undefined
  #nodes = 0

  constructor() {
    const parser = this.#parser
    parser.on('error', (error) => {
      throw malformed(error.message)
    })
    parser.on('doctype', () => {
      throw new WebdavError('document_type')
    })
    const count = () => this.#count()
    parser.on('opentagstart', count)
    parser.on('attribute', count)
    parser.on('comment', count)
    parser.on('processinginstruction', count)
    parser.on('opentag', ({ prefix, local, uri, attributes }) => {
      if (this.#open.length >= depthLimit) throw malformed('elements are nested too deeply')
      const parent = this.#open.at(-1)
      const ownAttributes = Object.values(attributes).filter((attribute) => attribute.uri !== declarationNamespace)
      const language = ownAttributes.find((attribute) => attribute.uri === xmlNamespace && attribute.local === 'lang')
      this.#open.push({
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
      this.#count()
      this.#open.at(-1)?.children.push(part)
    }
    parser.on('text', addText)
    parser.on('cdata', addText)
    parser.on('closetag', () => {
      const element = this.#open.pop()
      const parent = this.#open.at(-1)
      if (parent) parent.children.push(element as XmlElement)
      else this.#root = element
    })
  }

  /** Throws `invalid` for malformed XML, `too_large` for too many nodes, and a 400 for a document type. */
  write(piece: string): void {
    // The parser does not report references.
    for (let at = piece.indexOf('&'); at >= 0; at = piece.indexOf('&', at + 1)) this.#count()
    this.#parser.write(piece)
  }

  /** Returns the root element. Throws `invalid` if the document is incomplete. */
  end(): XmlElement {
    this.#parser.close()
    if (!this.#root) throw malformed('no root element')
    return this.#root
  }

  #count(): void {
    if (++this.#nodes > nodeLimit) throw new GatewayError('too_large', { reason: 'the XML body has too many nodes' })
  }
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

/** A limit of what is serialized, which several elements may share. */
export interface CharacterLimit {
  /** Number of characters that may still be serialized. */
  left: number
  /** Makes the error for what is longer. */
  readonly exceeded: () => GatewayError
}

function unlimited(): CharacterLimit {
  return { left: Infinity, exceeded: () => new GatewayError('too_large') }
}

/** Takes the characters of `text` from the limit. Throws its error if they are too many. */
export function spend(limit: CharacterLimit, text: string): void {
  if (text.length > limit.left) throw limit.exceeded()
  limit.left -= text.length
}

/** Serializes an element with all namespace declarations that it requires. Throws the error of the limit. */
export function serialize(element: XmlElement, limit: CharacterLimit = unlimited()): string {
  const serializer = new Serializer(limit)
  serializer.add(element)
  return serializer.text
}

/** Like `serialize`, for the content of the element. */
export function serializeContent({ children }: XmlElement, limit: CharacterLimit = unlimited()): string {
  const serializer = new Serializer(limit)
  for (const child of children) serializer.add(child)
  return serializer.text
}

class Serializer {
  text = ''
  /** The namespaces of the prefixes that are declared where the next element begins. */
  readonly #declared = new Map([['', '']])

  constructor(private readonly limit: CharacterLimit) {}

  add(node: XmlElement | string): void {
    if (typeof node === 'string') {
      this.#addEscaped(node, escapeText)
      return
    }
    const { prefix, namespace, name, attributes, children } = node
    /** The prefixes that the element declares, with what they are outside of it. */
    const outer: (readonly [prefix: string, namespace: string | undefined])[] = []
    const tag = qualified(prefix, name)
    this.#add('<', tag)
    this.#declare(prefix, namespace, outer)
    for (const attribute of attributes) {
      if (attribute.prefix !== '') this.#declare(attribute.prefix, attribute.namespace, outer)
      this.#add(' ', qualified(attribute.prefix, attribute.name), '="')
      this.#addEscaped(attribute.value, escapeAttribute)
      this.#add('"')
    }
    if (children.every((child) => child === '')) {
      this.#add('/>')
    } else {
      this.#add('>')
      for (const child of children) this.add(child)
      this.#add('</', tag, '>')
    }
    for (const [prefix, namespace] of outer) {
      if (namespace === undefined) this.#declared.delete(prefix)
      else this.#declared.set(prefix, namespace)
    }
  }

  #declare(prefix: string, namespace: string, outer: (readonly [string, string | undefined])[]): void {
    const before = this.#declared.get(prefix)
    if (prefix === 'xml' || before === namespace) return
    outer.push([prefix, before])
    this.#declared.set(prefix, namespace)
    this.#add(' xmlns', prefix === '' ? '' : `:${prefix}`, '="')
    this.#addEscaped(namespace, escapeAttribute)
    this.#add('"')
  }

  #add(...parts: readonly string[]): void {
    for (const part of parts) {
      spend(this.limit, part)
      this.text += part
    }
  }

  #addEscaped(text: string, escape: (text: string) => string): void {
    // An escaped text is never shorter: what is too long is not escaped first.
    if (text.length > this.limit.left) throw this.limit.exceeded()
    this.#add(escape(text))
  }
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
  // The parser's messages repeat names of the document.
  return new GatewayError('invalid', { reason: `malformed XML: ${why.slice(0, 200)}` })
}
