/**
 * Clients that state what each answer means for the history. Every request has a connection of its own, except over
 * SFTP.
 */
import { request, type IncomingHttpHeaders } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as wait } from 'node:timers/promises'
import { Client, type SFTPWrapper } from 'ssh2'
import type { Addresses } from '../../gateway.js'
import { idOf } from './content.js'
import type { Answer, Outcome, Protocol } from './history.js'

/** Milliseconds after which a client takes its request for lost. */
const requestTimeout = 8000

export interface ChaosClient {
  readonly protocol: Protocol
  write(path: string, content: Buffer): Promise<Answer>
  move(from: string, to: string, overwrite: boolean): Promise<Answer>
  remove(path: string): Promise<Answer>
  makeFolder(path: string): Promise<Answer>
  read(path: string): Promise<Answer>
  /** The names in a folder, sorted. Rejects if it cannot be listed. */
  names(folder: string): Promise<readonly string[]>
  close(): void
}

interface Received {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

/** Rejects if there is no complete answer in time. */
function send(
  url: string,
  method: string,
  headers: Readonly<Record<string, string>>,
  body?: Buffer | string,
): Promise<Received> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(requestTimeout)
    const length = body === undefined ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }
    const sent = request(url, { method, agent: false, signal, headers: { ...headers, ...length } })
    sent.on('error', reject)
    sent.on('response', (response) => {
      buffer(response).then(
        (received) => resolve({ status: response.statusCode ?? 0, headers: response.headers, body: received }),
        reject,
      )
    })
    sent.end(body)
  })
}

function readAnswer(content: Buffer): Answer {
  const found = idOf(content)
  return found === undefined
    ? { outcome: 'done', text: `torn, ${content.length} bytes: ${content.toString('latin1', 0, 60)}` }
    : { outcome: 'done', found }
}

/** The answer to a copy that was not stored. */
const sourceChanged = 'the source changed while it was copied'

const parentOf = (path: string) => path.slice(0, Math.max(1, path.lastIndexOf('/')))
const nameOf = (path: string) => path.slice(path.lastIndexOf('/') + 1)

interface Envelope {
  readonly code: number
  readonly message: string
  readonly data: unknown
}

export class HttpClient implements ChaosClient {
  readonly protocol = 'http'

  private constructor(
    private readonly url: string,
    private readonly token: string,
  ) {}

  static async connect(url: string, password: string): Promise<HttpClient> {
    const { data } = await HttpClient.#call(url, '', '/api/auth/login', { username: 'admin', password })
    return new HttpClient(url, (data as { token: string }).token)
  }

  static async #call(url: string, token: string, path: string, fields: object): Promise<Envelope> {
    const headers = { 'Content-Type': 'application/json', Authorization: token }
    const { body } = await send(url + path, 'POST', headers, JSON.stringify(fields))
    return JSON.parse(body.toString()) as Envelope
  }

  write(path: string, content: Buffer): Promise<Answer> {
    return this.#put(path, content, {})
  }

  create(path: string, content: Buffer): Promise<Answer> {
    return this.#put(path, content, { Overwrite: 'false' })
  }

  async #put(path: string, content: Buffer, headers: Readonly<Record<string, string>>): Promise<Answer> {
    const all = { ...headers, Authorization: this.token, 'File-Path': path }
    const { body } = await send(`${this.url}/api/fs/put`, 'PUT', all, content)
    return this.#answer(JSON.parse(body.toString()) as Envelope)
  }

  /** Either the folder or the name must be the same. */
  move(from: string, to: string, overwrite: boolean): Promise<Answer> {
    const [folder, name] = [parentOf(from), nameOf(from)]
    return folder === parentOf(to)
      ? this.#post('/api/fs/rename', { path: from, name: nameOf(to), overwrite })
      : this.#post('/api/fs/move', { src_dir: folder, dst_dir: parentOf(to), names: [name], overwrite })
  }

  /** The name must be the same. */
  copy(from: string, to: string, overwrite: boolean): Promise<Answer> {
    const fields = { src_dir: parentOf(from), dst_dir: parentOf(to), names: [nameOf(from)], overwrite }
    return this.#post('/api/fs/copy', fields)
  }

  remove(path: string): Promise<Answer> {
    return this.#post('/api/fs/remove', { dir: parentOf(path), names: [nameOf(path)] })
  }

  /** Succeeds if the folder exists. */
  makeFolder(path: string): Promise<Answer> {
    return this.#post('/api/fs/mkdir', { path })
  }

  async read(path: string): Promise<Answer> {
    const found = await HttpClient.#call(this.url, this.token, '/api/fs/get', { path })
    const answer = this.#answer(found)
    if (answer.outcome !== 'done') return answer
    const { status, body } = await send((found.data as { raw_url: string }).raw_url, 'GET', {})
    if (status === 404) return { outcome: 'missing' }
    return status === 200 ? readAnswer(body) : { outcome: 'open', text: String(status) }
  }

  async names(folder: string): Promise<readonly string[]> {
    const found = await HttpClient.#call(this.url, this.token, '/api/fs/list', { path: folder })
    if (found.code !== 200) throw new Error(found.message)
    return (found.data as { content: { name: string }[] }).content.map(({ name }) => name).sort()
  }

  close(): void {
    // It has no connection.
  }

  async #post(path: string, fields: object): Promise<Answer> {
    return this.#answer(await HttpClient.#call(this.url, this.token, path, fields))
  }

  #answer({ code, message }: Envelope): Answer {
    if (code === 200) return { outcome: 'done' }
    return { outcome: this.#outcomeOf(code, message), text: `${code} ${message}` }
  }

  #outcomeOf(code: number, message: string): Outcome {
    if (message.endsWith('object not found')) return 'missing'
    if (message.endsWith(sourceChanged)) return 'refused'
    if (code === 403 && message.endsWith('exists')) return 'exists'
    return code >= 400 && code < 500 ? 'refused' : 'open'
  }
}

const lockBody =
  '<?xml version="1.0"?><lockinfo xmlns="DAV:"><lockscope><exclusive/></lockscope><locktype><write/></locktype></lockinfo>'

export class WebDavClient implements ChaosClient {
  readonly protocol = 'webdav'
  readonly #base: string
  readonly #authorization: string

  constructor(url: string, password: string) {
    this.#base = `${url}/dav`
    this.#authorization = `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`
  }

  /** `token`: that of a lock. */
  write(path: string, content: Buffer, token?: string): Promise<Answer> {
    return this.#change('PUT', path, token === undefined ? {} : { If: `(<${token}>)` }, content)
  }

  async create(path: string, content: Buffer): Promise<Answer> {
    const answer = await this.#change('PUT', path, { 'If-None-Match': '*' }, content)
    return answer.text === '412' ? { ...answer, outcome: 'exists' } : answer
  }

  /** `tag`: the entity tag of the content to replace. */
  replace(path: string, tag: string, content: Buffer): Promise<Answer> {
    return this.#change('PUT', path, { 'If-Match': tag }, content)
  }

  /** Sends half of a file. Resolves after some time, when the server has probably received it. */
  async beginWrite(path: string, content: Buffer): Promise<void> {
    const headers = { Authorization: this.#authorization, 'Content-Length': String(content.length) }
    const sent = request(this.#base + path, { method: 'PUT', agent: false, headers })
    sent.on('error', () => undefined)
    sent.write(content.subarray(0, content.length / 2))
    await wait(1000)
  }

  move(from: string, to: string, overwrite: boolean): Promise<Answer> {
    return this.#transfer('MOVE', from, to, overwrite)
  }

  copy(from: string, to: string, overwrite: boolean): Promise<Answer> {
    return this.#transfer('COPY', from, to, overwrite)
  }

  async #transfer(method: 'MOVE' | 'COPY', from: string, to: string, overwrite: boolean): Promise<Answer> {
    const headers = { Destination: this.#base + to, Overwrite: overwrite ? 'T' : 'F' }
    const answer = await this.#change(method, from, headers)
    return answer.text === '412' ? { ...answer, outcome: 'exists' } : answer
  }

  remove(path: string): Promise<Answer> {
    return this.#change('DELETE', path)
  }

  async makeFolder(path: string): Promise<Answer> {
    const answer = await this.#change('MKCOL', path)
    return answer.text === '405' ? { ...answer, outcome: 'exists' } : answer
  }

  async read(path: string): Promise<Answer & { readonly tag?: string }> {
    const { status, body, headers } = await this.#send('GET', path)
    if (status === 404) return { outcome: 'missing' }
    if (status !== 200) return { outcome: 'open', text: String(status) }
    return { ...readAnswer(body), ...(headers.etag === undefined ? {} : { tag: headers.etag }) }
  }

  async lock(path: string, seconds: number): Promise<Answer> {
    const { status, headers } = await this.#send('LOCK', path, { Timeout: `Second-${seconds}` }, lockBody)
    const token = /<(.*)>/.exec(String(headers['lock-token']))?.[1]
    return { ...answerOf(status), ...(token === undefined ? {} : { token }) }
  }

  unlock(path: string, token: string): Promise<Answer> {
    return this.#change('UNLOCK', path, { 'Lock-Token': `<${token}>` })
  }

  async names(folder: string): Promise<readonly string[]> {
    const { status, body } = await this.#send('PROPFIND', folder, { Depth: '1' })
    if (status !== 207) throw new Error(`PROPFIND ${folder}: ${status}`)
    const paths = [...body.toString().matchAll(/:response>\s*<[^>]*:href>([^<]*)</gi)].map(([, path = '']) => path)
    return paths
      .slice(1)
      .map((path) => nameOf(decodeURIComponent(path.replace(/\/$/, ''))))
      .sort()
  }

  close(): void {
    // It has no connection.
  }

  async #change(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>> = {},
    body?: Buffer,
  ): Promise<Answer> {
    const { status, body: text } = await this.#send(method, path, headers, body)
    return text.includes(sourceChanged) ? { outcome: 'refused', text: sourceChanged } : answerOf(status)
  }

  #send(method: string, path: string, headers: Readonly<Record<string, string>> = {}, body?: Buffer | string) {
    return send(this.#base + path, method, { ...headers, Authorization: this.#authorization }, body)
  }
}

function answerOf(status: number): Answer {
  const text = String(status)
  // RFC 4918 §13: something failed.
  if (status === 207) return { outcome: 'open', text }
  if (status >= 200 && status < 300) return { outcome: 'done', text }
  if (status === 404) return { outcome: 'missing', text }
  return { outcome: status >= 400 && status < 500 ? 'refused' : 'open', text }
}

interface SftpError extends Error {
  readonly code?: number
}

export class SftpClient implements ChaosClient {
  readonly protocol = 'sftp'
  #session: Promise<{ readonly client: Client; readonly sftp: SFTPWrapper }> | undefined

  constructor(
    private readonly port: number,
    private readonly password: string,
  ) {}

  async write(path: string, content: Buffer): Promise<Answer> {
    const opened = await this.#open(path, 'w')
    return 'outcome' in opened ? opened : this.fill(opened.handle, content)
  }

  /** Creates an empty file, which `fill` replaces. */
  reserve(path: string): Promise<Answer | { readonly handle: Buffer }> {
    return this.#open(path, 'wx')
  }

  /** Writes the content of an open file and closes it. */
  async fill(handle: Buffer, content: Buffer): Promise<Answer> {
    const size = 32_000
    for (let at = 0; at < content.length; at += size) {
      const length = Math.min(size, content.length - at)
      const answer = await this.#answer((sftp, done) => sftp.write(handle, content, at, length, at, done))
      if (answer.outcome === 'done') continue
      // The server discards the content when the connection ends.
      this.close()
      return answer
    }
    return this.#answer((sftp, done) => sftp.close(handle, done))
  }

  move(from: string, to: string, overwrite: boolean): Promise<Answer> {
    return this.#answer((sftp, done) => {
      if (overwrite) sftp.ext_openssh_rename(from, to, done)
      else sftp.rename(from, to, done)
    })
  }

  remove(path: string): Promise<Answer> {
    return this.#answer((sftp, done) => sftp.unlink(path, done))
  }

  makeFolder(path: string): Promise<Answer> {
    return this.#answer((sftp, done) => sftp.mkdir(path, done))
  }

  async read(path: string): Promise<Answer> {
    let content: Buffer | undefined
    const answer = await this.#answer((sftp, done) =>
      sftp.readFile(path, (error: Error | undefined, found) => {
        content = found
        done(error)
      }),
    )
    return answer.outcome === 'done' && content ? readAnswer(content) : answer
  }

  async names(folder: string): Promise<readonly string[]> {
    let names: readonly string[] = []
    const answer = await this.#answer((sftp, done) =>
      sftp.readdir(folder, (error, list) => {
        if (!error) names = list.map(({ filename }) => filename)
        done(error)
      }),
    )
    if (answer.outcome !== 'done') throw new Error(answer.text)
    return names.filter((name) => name !== '.' && name !== '..').sort()
  }

  /** The next request opens another connection. */
  close(): void {
    const session = this.#session
    this.#session = undefined
    session?.then(
      ({ client }) => client.destroy(),
      () => undefined,
    )
  }

  async #open(path: string, flags: 'w' | 'wx'): Promise<Answer | { readonly handle: Buffer }> {
    let opened: Buffer | undefined
    const answer = await this.#answer((sftp, done) =>
      sftp.open(path, flags, (error, handle) => {
        opened = handle
        done(error)
      }),
    )
    return answer.outcome === 'done' && opened ? { handle: opened } : answer
  }

  /** After an open outcome the connection is closed. */
  async #answer(run: (sftp: SFTPWrapper, done: (error?: Error | null) => void) => void): Promise<Answer> {
    const answer = await this.#run(run).catch((error: unknown): Answer => ({ outcome: 'open', text: String(error) }))
    if (answer.outcome === 'open') this.close()
    return answer
  }

  async #run(run: (sftp: SFTPWrapper, done: (error?: Error | null) => void) => void): Promise<Answer> {
    const session = await (this.#session ??= this.#connect()).catch(() => undefined)
    if (!session) {
      this.close()
      return { outcome: 'refused', text: 'no connection' }
    }
    const { client, sftp } = session
    return new Promise((resolve) => {
      const lost = () => end({ outcome: 'open', text: 'no answer' })
      const timer = setTimeout(lost, requestTimeout)
      const end = (answer: Answer) => {
        clearTimeout(timer)
        client.off('close', lost)
        resolve(answer)
      }
      client.once('close', lost)
      run(sftp, (error) => end(error ? sftpAnswer(error) : { outcome: 'done' }))
    })
  }

  #connect(): Promise<{ readonly client: Client; readonly sftp: SFTPWrapper }> {
    return new Promise((resolve, reject) => {
      const client = new Client()
      client.on('error', reject).on('close', () => reject(new Error('the connection was closed')))
      client.on('ready', () => client.sftp((error, sftp) => (error ? reject(error) : resolve({ client, sftp }))))
      const readyTimeout = requestTimeout
      client.connect({ host: '127.0.0.1', port: this.port, username: 'admin', password: this.password, readyTimeout })
    })
  }
}

function sftpAnswer({ code, message }: SftpError): Answer {
  const text = `${code} ${message}`
  if (code === 2) return { outcome: 'missing', text }
  if (/exists|EEXIST/i.test(message)) return { outcome: 'exists', text }
  return { outcome: message.includes('locked') || code === 3 ? 'refused' : 'open', text }
}

/** One client of each protocol. */
export async function connectAll({ url, sftpPort }: Addresses, password: string): Promise<readonly ChaosClient[]> {
  return [await HttpClient.connect(url, password), new WebDavClient(url, password), new SftpClient(sftpPort, password)]
}
