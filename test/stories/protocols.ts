/** Clients of one user for the three protocols: the same few operations and errors for each. */
import { Client, type SFTPWrapper } from 'ssh2'

/** The result of a request, equal for all three protocols. */
export type Answer = 'done' | 'missing' | 'refused' | 'exists' | 'locked' | 'failed'

/** The protocols that the stories compare. */
export type ProtocolName = 'http' | 'webdav' | 'sftp'

export interface ProtocolClient {
  readonly protocol: ProtocolName
  put(path: string, content: Buffer): Promise<Answer>
  get(path: string): Promise<Buffer | Exclude<Answer, 'done'>>
  names(path: string): Promise<readonly string[] | Exclude<Answer, 'done'>>
  makeFolder(path: string): Promise<Answer>
  rename(from: string, to: string): Promise<Answer>
  remove(path: string): Promise<Answer>
  close(): Promise<void>
}

export interface Where {
  readonly url: string
  readonly davUrl: string
  readonly sftpPort: number
}

interface Who {
  readonly username: string
  readonly password: string
}

export async function connectAll(where: Where, who: Who): Promise<readonly ProtocolClient[]> {
  return [await connectHttp(where, who), connectWebDav(where, who), await connectSftp(where, who)]
}

const encoded = (path: string): string => path.split('/').map(encodeURIComponent).join('/')

interface Envelope {
  readonly code: number
  readonly message: string
  readonly data: unknown
}

export async function connectHttp({ url }: Where, who: Who): Promise<ProtocolClient> {
  const call = async (path: string, body: unknown, token = ''): Promise<Envelope> => {
    const response = await fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: token },
      body: JSON.stringify(body),
    })
    return (await response.json()) as Envelope
  }
  const signIn = await call('/api/auth/login', who)
  if (signIn.code !== 200) throw new Error(`sign-in: ${signIn.message}`)
  const { token } = signIn.data as { token: string }
  const told = ({ code, message }: Envelope): Answer => {
    if (code === 200) return 'done'
    if (message.endsWith('object not found')) return 'missing'
    if (code === 403 && message.endsWith('exists')) return 'exists'
    if (code === 403 || code === 401) return 'refused'
    return code === 423 ? 'locked' : 'failed'
  }
  const folder = (path: string) => path.slice(0, Math.max(1, path.lastIndexOf('/')))
  const name = (path: string) => path.slice(path.lastIndexOf('/') + 1)
  return {
    protocol: 'http',
    async put(path, content) {
      const response = await fetch(`${url}/api/fs/put`, {
        method: 'PUT',
        headers: { Authorization: token, 'File-Path': encodeURIComponent(path) },
        body: new Uint8Array(content),
      })
      return told((await response.json()) as Envelope)
    },
    async get(path) {
      const found = await call('/api/fs/get', { path }, token)
      const answer = told(found)
      if (answer !== 'done') return answer
      const { raw_url: rawUrl } = found.data as { raw_url: string }
      if (rawUrl === '') return 'refused'
      const response = await fetch(rawUrl)
      return response.ok ? Buffer.from(await response.arrayBuffer()) : 'failed'
    },
    async names(path) {
      const found = await call('/api/fs/list', { path }, token)
      const answer = told(found)
      if (answer !== 'done') return answer
      return (found.data as { content: { name: string }[] }).content.map((each) => each.name).sort()
    },
    makeFolder: async (path) => told(await call('/api/fs/mkdir', { path }, token)),
    async rename(from, to) {
      if (folder(from) === folder(to)) return told(await call('/api/fs/rename', { path: from, name: name(to) }, token))
      const move = { src_dir: folder(from), dst_dir: folder(to), names: [name(from)] }
      return told(await call('/api/fs/move', move, token))
    },
    remove: async (path) => told(await call('/api/fs/remove', { dir: folder(path), names: [name(path)] }, token)),
    close: async () => undefined,
  }
}

export function connectWebDav({ davUrl }: Where, { username, password }: Who): ProtocolClient {
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  const base = davUrl.replace(/\/$/, '')
  const send = async (method: string, path: string, headers: Record<string, string> = {}, body?: Buffer) => {
    const response = await fetch(base + encoded(path), {
      method,
      headers: { Authorization: authorization, ...headers },
      redirect: 'manual',
      ...(body === undefined ? {} : { body: new Uint8Array(body) }),
    })
    return { status: response.status, content: Buffer.from(await response.arrayBuffer()) }
  }
  const told = ({ status }: { status: number }): Answer => {
    if (status >= 200 && status < 300) return 'done'
    if (status === 404) return 'missing'
    if (status === 401 || status === 403) return 'refused'
    if (status === 412) return 'exists'
    return status === 423 ? 'locked' : 'failed'
  }
  return {
    protocol: 'webdav',
    put: async (path, content) => told(await send('PUT', path, {}, content)),
    async get(path) {
      const found = await send('GET', path)
      const answer = told(found)
      return answer === 'done' ? found.content : answer
    },
    async names(path) {
      const found = await send('PROPFIND', path, { Depth: '1' })
      const answer = told(found)
      if (answer !== 'done') return answer
      const hrefs = [...found.content.toString().matchAll(/<[^:>]*:?href>([^<]*)</gi)].map((match) => match[1] ?? '')
      const names = hrefs.map((href) => decodeURIComponent(href.replace(/\/$/, '').replace(/^.*\//, '')))
      return names.slice(1).sort()
    },
    makeFolder: async (path) => told(await send('MKCOL', path)),
    rename: async (from, to) => told(await send('MOVE', from, { Destination: base + encoded(to), Overwrite: 'F' })),
    remove: async (path) => told(await send('DELETE', path)),
    close: async () => undefined,
  }
}

/** An SFTP session; the caller ends the connection. Without a password, the client gives its name alone. */
export async function openSftp({ sftpPort }: Pick<Where, 'sftpPort'>, who: Pick<Who, 'username'> & Partial<Who>) {
  const client = new Client()
  const sftp = await new Promise<SFTPWrapper>((resolve, reject) => {
    client
      .on('ready', () => client.sftp((error, channel) => (error ? reject(error) : resolve(channel))))
      .on('error', reject)
      .connect({ host: '127.0.0.1', port: sftpPort, ...who })
  })
  return { client, sftp }
}

export async function connectSftp(where: Where, who: Who): Promise<ProtocolClient> {
  const { client, sftp } = await openSftp(where, who)
  const told = (error: unknown): Exclude<Answer, 'done'> => {
    const { code, message } = error as { code?: number; message?: string }
    if (code === 2) return 'missing'
    if (code === 3) return 'refused'
    if (message?.includes('locked') === true) return 'locked'
    return message?.includes('exists') === true ? 'exists' : 'failed'
  }
  // What is asked when the connection has ended is never answered.
  const ended = new Promise<'failed'>((resolve) => {
    for (const each of [client, sftp]) each.once('close', () => resolve('failed'))
  })
  const run = (work: (done: (error?: Error | null) => void) => void): Promise<Answer> =>
    Promise.race([ended, new Promise<Answer>((resolve) => work((error) => resolve(error ? told(error) : 'done')))])
  return {
    protocol: 'sftp',
    put: (path, content) => run((done) => sftp.writeFile(path, content, done)),
    get: (path) =>
      new Promise((resolve) =>
        sftp.readFile(path, (error: Error | undefined, content) => resolve(error ? told(error) : content)),
      ),
    names: (path) =>
      new Promise((resolve) =>
        sftp.readdir(path, (error, list) => {
          if (error) resolve(told(error))
          else {
            const names = list.map((each) => each.filename)
            resolve(names.filter((each) => each !== '.' && each !== '..').sort())
          }
        }),
      ),
    makeFolder: (path) => run((done) => sftp.mkdir(path, done)),
    rename: (from, to) => run((done) => sftp.rename(from, to, done)),
    async remove(path) {
      const asFile = await run((done) => sftp.unlink(path, done))
      return asFile === 'failed' ? run((done) => sftp.rmdir(path, done)) : asFile
    },
    close: () =>
      new Promise((resolve) => {
        client.once('close', () => resolve())
        client.end()
      }),
  }
}
