/**
 * A daemon of a package, as the checks of packages use it: until it is ready, over its three protocols, with a
 * thumbnail, and until it stops.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import sharp from 'sharp'
import ssh2, { type SFTPWrapper } from 'ssh2'
import { assert } from './assert.js'

/** The flags that make it listen on free ports of the loopback. */
export const addresses = ['--http', '127.0.0.1:0', '--sftp', '127.0.0.1:0']

/** What it has printed until it is ready. */
export interface Ready {
  /** The URL of HTTP: `http://127.0.0.1:5244`. */
  readonly url: string
  readonly sftpPort: number
  /** The password that it has generated for `admin`; else empty. */
  readonly password: string
}

/** Resolves when the daemon, whose stdout is a pipe, is ready. Rejects with what it has printed if it ends before. */
export function ready({ stdout }: ChildProcess): Promise<Ready> {
  if (stdout === null) throw new Error('stdout must be a pipe')
  return new Promise((resolve, reject) => {
    let text = ''
    createInterface(stdout)
      .on('line', (line) => {
        text += `${line}\n`
        const [, url, port] = /ready: (http:\S+) sftp:\S+:(\d+)$/.exec(line) ?? []
        const password = /password (\S+)/.exec(text)?.[1] ?? ''
        if (url !== undefined) resolve({ url, sftpPort: Number(port), password })
      })
      .on('close', () => reject(new Error(`the daemon ended before it was ready: ${text}`)))
  })
}

/**
 * Rejects unless the daemon stops with the status 0. `pid`: of the daemon, if `daemon` is a process that waits for it.
 */
export async function stop(daemon: ChildProcess, pid = daemon.pid): Promise<void> {
  const ended = once(daemon, 'exit')
  if (pid !== undefined) process.kill(pid, 'SIGTERM')
  const [status] = (await ended) as [number | null]
  assert(status === 0, 'the daemon stops with the status 0')
}

/** Rejects unless `admin` can upload a file by each protocol, and read it by another one. */
export async function useProtocols(daemon: Ready): Promise<void> {
  const { url, sftpPort, password } = daemon
  const authorization = `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`
  const dav = async (name: string, init: RequestInit = {}) =>
    (await fetch(`${url}/dav/${name}`, { ...init, headers: { authorization } })).text()
  const token = await signIn(daemon)
  await put(daemon, token, '/by-http', 'by HTTP')
  assert((await dav('by-http')) === 'by HTTP', 'a file by HTTP, read by WebDAV')
  await dav('by-dav', { method: 'PUT', body: 'by WebDAV' })
  const client = new ssh2.Client()
  client.connect({ host: '127.0.0.1', port: sftpPort, username: 'admin', password })
  await once(client, 'ready')
  const sftp = await new Promise<SFTPWrapper>((done, failed) => {
    client.sftp((error, session) => (error ? failed(error) : done(session)))
  })
  const read = await new Promise<string>((done, failed) => {
    sftp.readFile('/by-dav', (error, bytes) => (error ? failed(error) : done(bytes.toString())))
  })
  assert(read === 'by WebDAV', 'a file by WebDAV, read by SFTP')
  await new Promise<void>((done, failed) => {
    sftp.writeFile('/by-sftp', 'by SFTP', (error) => (error ? failed(error) : done()))
  })
  client.end()
  assert((await dav('by-sftp')) === 'by SFTP', 'a file by SFTP, read by WebDAV')
}

/** Rejects unless it makes the thumbnail of a photo, by the process of its own that decodes images. */
export async function useThumbnails(daemon: Ready): Promise<void> {
  const token = await signIn(daemon)
  const photo = { create: { width: 4000, height: 3000, channels: 3, background: '#1e60c8' } } as const
  await put(daemon, token, '/photo.jpg', await sharp(photo).jpeg().toBuffer())
  const { thumb } = await call<{ readonly thumb: string }>(daemon, '/api/fs/get', { path: '/photo.jpg' }, token)
  const answer = await fetch(thumb)
  const bytes = new Uint8Array(await answer.arrayBuffer())
  const isPicture = answer.ok && answer.headers.get('Content-Type') === 'image/webp'
  assert(
    isPicture,
    `a photo has a thumbnail: ${answer.status}${isPicture ? '' : ` ${new TextDecoder().decode(bytes)}`}`,
  )
  const { width, height } = await sharp(bytes).metadata()
  assert(width === 256 && height === 192, 'which is 256 pixels wide')
}

async function signIn(daemon: Ready): Promise<string> {
  const { password } = daemon
  const { token } = await call<{ readonly token: string }>(daemon, '/api/auth/login', { username: 'admin', password })
  return token
}

async function call<Data>({ url }: Ready, path: string, body: object, token = ''): Promise<Data> {
  const headers = { 'Content-Type': 'application/json', Authorization: token }
  const answer = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  return ((await answer.json()) as { readonly data: Data }).data
}

/** Uploads a file by the HTTP API. */
async function put({ url }: Ready, token: string, path: string, body: string | Uint8Array): Promise<void> {
  await fetch(`${url}/api/fs/put`, { method: 'PUT', headers: { Authorization: token, 'File-Path': path }, body })
}
