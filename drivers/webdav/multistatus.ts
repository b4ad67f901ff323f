/**
 * Answers of status 207 (RFC 4918 §13), read while they arrive. Lenient where servers are sloppy: undeclared prefixes, characters that
 * XML forbids, odd dates. Strict in one thing: an answer that does not come to its end is none, or a broken listing would look
 * like a short one.
 */
import { TextDecoder } from 'node:util'
import { SaxesParser } from 'saxes'
import { nonsense } from './errors.js'

/** One `response`. What a server does not tell, or tells in a way that makes no sense, is undefined. */
export interface Resource {
  /** As the server wrote it. */
  readonly href: string
  /** Of the resource as a whole: 200 where only its properties have one. */
  readonly status: number
  readonly properties: Properties
}

export interface Properties {
  readonly isFolder?: boolean
  readonly size?: number
  readonly modified?: Date
  readonly created?: Date
  readonly etag?: string
  /** Of the ownCloud family: `NAME:digest`, several of them with blanks between. */
  readonly checksums?: string
  /** RFC 4331, in bytes. */
  readonly available?: number
  readonly used?: number
}

const pageSize = 1000
const depthLimit = 64
/** Characters in which at least one resource has to be told. */
const patience = 4 * 1024 * 1024

/** Pages of resources. Rejects with `unavailable` where the answer is no multistatus, or not all of one. */
export async function* readMultistatus(body: AsyncIterable<Buffer>): AsyncGenerator<readonly Resource[]> {
  const reader = new MultistatusReader()
  let decoder: TextDecoder | undefined
  let sinceLast = 0
  for await (const chunk of body) {
    decoder ??= decoderFor(chunk)
    const text = decoder.decode(chunk, { stream: true })
    reader.write(text)
    sinceLast = reader.hasNews() ? 0 : sinceLast + text.length
    if (sinceLast > patience) throw nonsense('tells too much about one resource')
    for (let page = reader.take(pageSize, false); page; page = reader.take(pageSize, false)) yield page
  }
  reader.end()
  for (let page = reader.take(pageSize, true); page; page = reader.take(pageSize, true)) yield page
}

/** UTF-8, or what the XML declaration says. */
function decoderFor(chunk: Buffer): TextDecoder {
  const [, label = 'utf-8'] =
    /^[^<]{0,4}<\?xml[^>]*encoding\s*=\s*["']([\w-]+)["']/i.exec(chunk.toString('latin1', 0, 200)) ?? []
  try {
    return new TextDecoder(label)
  } catch {
    throw nonsense('answers in an encoding that is not known')
  }
}

/** Some servers do not escape it in names. */
const bareAmpersand = /&(?!(?:[a-z]{1,10}|#\d{1,8}|#x[\da-f]{1,8});)/gi

interface Open {
  readonly name: string
  text: string
}

interface Draft {
  href: string
  status: number | undefined
  properties: Properties
  /** Of its properties, the best that was told. */
  told?: number
}

class MultistatusReader {
  readonly #parser = new SaxesParser({ xmlns: true, position: false })
  readonly #open: Open[] = []
  readonly #told: Resource[] = []
  #held = ''
  #news = false
  #isWhole = false
  #response: Draft = { href: '', status: undefined, properties: {} }
  #propstat: Draft = { href: '', status: undefined, properties: {} }

  constructor() {
    const addText = (text: string) => {
      const open = this.#open.at(-1)
      if (open) open.text += text
    }
    this.#parser.on('error', () => undefined)
    this.#parser.on('text', addText)
    this.#parser.on('cdata', addText)
    this.#parser.on('opentag', ({ prefix, local, uri }) => {
      if (this.#open.length >= depthLimit) throw nonsense('nests its answer too deep')
      // An undeclared prefix stands for itself.
      const isKnown = ['DAV:', '', prefix, 'http://owncloud.org/ns'].includes(uri)
      this.#begin(isKnown ? local : '')
    })
    this.#parser.on('closetag', () => {
      this.#finish()
    })
  }

  write(text: string): void {
    const all = this.#held + text
    // What may be the beginning of a reference waits for the rest of it.
    const [last = ''] = /&[^;&<]{0,10}$/.exec(all) ?? []
    this.#held = last
    this.#parser.write(all.slice(0, all.length - last.length).replace(bareAmpersand, '&amp;'))
  }

  end(): void {
    this.#parser.write(this.#held.replace(bareAmpersand, '&amp;')).close()
    if (!this.#isWhole) throw nonsense('gave no answer of WebDAV, or not all of it')
  }

  /** Whether a resource was told since this was asked last. */
  hasNews(): boolean {
    const had = this.#news
    this.#news = false
    return had
  }

  /** The next page; undefined where there is no whole one, unless the rest will do. */
  take(count: number, rest: boolean): readonly Resource[] | undefined {
    const isThere = rest ? this.#told.length > 0 : this.#told.length >= count
    return isThere ? this.#told.splice(0, count) : undefined
  }

  #begin(name: string): void {
    const parent = this.#open.at(-1)?.name
    if (name === 'response') this.#response = { href: '', status: undefined, properties: {} }
    if (name === 'propstat') this.#propstat = { href: '', status: undefined, properties: {} }
    if (name === 'collection' && parent === 'resourcetype') this.#know({ isFolder: true })
    this.#open.push({ name, text: '' })
  }

  #finish(): void {
    const { name, text } = this.#open.pop() ?? { name: '', text: '' }
    const parent = this.#open.at(-1)
    const draft = parent?.name === 'propstat' ? this.#propstat : this.#response
    if (name === 'multistatus' && !parent) this.#isWhole = true
    else if (name === 'href' && parent?.name === 'response') this.#response.href = text.trim()
    else if (name === 'status') draft.status = statusOf(text)
    else if (name === 'checksum' && parent) parent.text += `${text} `
    else if (parent?.name === 'prop') this.#know(propertyOf(name, text.trim()))
    else if (name === 'propstat') this.#mergeProperties()
    else if (name === 'response') this.#tell()
  }

  #know(properties: Properties): void {
    this.#propstat.properties = { ...this.#propstat.properties, ...properties }
  }

  #mergeProperties(): void {
    const { status = 200, properties } = this.#propstat
    if (status < 300) this.#response.properties = { ...this.#response.properties, ...properties }
    this.#response.told = Math.min(this.#response.told ?? status, status)
  }

  #tell(): void {
    // Where nothing of it could be told, it is not a file without content.
    const { href, told = 200, status = told, properties } = this.#response
    this.#news = true
    if (href !== '') this.#told.push({ href, status, properties })
  }
}

/** `HTTP/1.1 200 OK`. */
function statusOf(line: string): number | undefined {
  const [, code] = /^\s*HTTP\/[\d.]+\s+(\d{3})\b/i.exec(line) ?? []
  return code === undefined ? undefined : Number(code)
}

function propertyOf(name: string, text: string): Properties {
  switch (name) {
    case 'getcontentlength':
      return /^\d{1,15}$/.test(text) ? { size: Number(text) } : {}
    case 'getlastmodified': {
      const modified = new Date(text)
      return Number.isNaN(modified.getTime()) ? {} : { modified }
    }
    case 'creationdate': {
      const created = new Date(text)
      return Number.isNaN(created.getTime()) ? {} : { created }
    }
    case 'getetag':
      return text === '' ? {} : { etag: text }
    case 'checksums':
      return text === '' ? {} : { checksums: text }
    case 'quota-available-bytes':
      return /^\d{1,18}$/.test(text) ? { available: Number(text) } : {}
    case 'quota-used-bytes':
      return /^\d{1,18}$/.test(text) ? { used: Number(text) } : {}
    default:
      return {}
  }
}
