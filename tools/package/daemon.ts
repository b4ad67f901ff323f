/**
 * A daemon of a package, as the checks of packages use it: until it is ready, over its three protocols, and until it
 * stops.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
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
export async function useProtocols({ url, sftpPort, password }: Ready): Promise<void> {
  const authorization = `Basic ${Buffer.from(`admin:${password}`).toString('base64')}`
  const dav = async (name: string, init: RequestInit = {}) =>
    (await fetch(`${url}/dav/${name}`, { ...init, headers: { authorization } })).text()
  const answer = await fetch(`${url}/api/auth/login`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ username: 'admin', password }),
  })
  const { data } = (await answer.json()) as { data: { token: string } }
  const headers = { Authorization: data.token, 'File-Path': '/by-http' }
  await fetch(`${url}/api/fs/put`, { method: 'PUT', headers, body: 'by HTTP' })
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
