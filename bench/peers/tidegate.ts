/** Tidegate: the built program with a separate data folder. */
import { readFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { version } from '../../src/base/version.js'
import type { Exchange } from '../http-client.js'
import { encodedPath, type Ground, type Peer, type PeerType } from './peer.js'
import { startProcess } from './process.js'

/** The program of this checkout. */
export const ownMain = fileURLToPath(new URL('../../src/main.js', import.meta.url))
/** The password of the admin. */
export const password = 'a password for the bench'

export interface Tidegate extends Peer {
  /** The main file of the program. */
  readonly main: string
  readonly url: string
  /** The token of a signed-in admin. */
  readonly token: string
  /** Milliseconds from the start of the process to its ready line. */
  readonly startTime: number
  /** Calls the API. Rejects if the code in the envelope is not 200. */
  call(path: string, body: unknown): Promise<unknown>
  /** As `call`, as a request for the measuring client. */
  exchange(path: string, body: unknown): Exchange
}

export function isTidegate(peer: Peer): peer is Tidegate {
  return peer.name === 'tidegate'
}

/**
 * Starts the program `main`, which may be of an older commit, with the data folder `data` and these further arguments.
 * The first start adds the client's key to the admin account.
 */
export async function startTidegate(
  main: string,
  ground: Ground,
  data: string,
  further: readonly string[] = [],
): Promise<Tidegate> {
  const begin = performance.now()
  let line = ''
  const running = await startProcess(
    process.execPath,
    [main, 'serve', '--data', data, '--http', '127.0.0.1:0', '--sftp', '127.0.0.1:0', ...further],
    {
      environment: { TIDEGATE_ADMIN_PASSWORD: password },
      isReady: (output) => {
        const lines = output.split('\n').slice(0, -1)
        line = lines.find((each) => each.includes('ready') && !each.startsWith('{')) ?? ''
        return line !== ''
      },
    },
  )
  const startTime = performance.now() - begin
  try {
    const [http = '', sftp = ''] = line.match(/127\.0\.0\.1:\d+/g) ?? []
    const url = `http://${http}`
    const signedIn = await post(`${url}/api/auth/login`, { username: 'admin', password }, '')
    const { token } = signedIn as { token: string }
    const call = (path: string, body: unknown) => post(url + path, body, token)
    const keys = await fetch(`${url}/api/me/sshkey/list`, { headers: { Authorization: token } })
    const { data: page } = (await keys.json()) as { data: { total: number } }
    if (page.total === 0) {
      await call('/api/me/sshkey/add', { title: 'bench', key: await readFile(`${ground.clientKey}.pub`, 'utf8') })
    }
    const basic = Buffer.from(`admin:${password}`).toString('base64')
    const dav = { url: `${url}/dav/`, headers: { Authorization: `Basic ${basic}` } }
    // The slow password hash is computed once, before the measurements.
    await fetch(dav.url, { method: 'HEAD', headers: dav.headers })
    return {
      name: 'tidegate',
      main,
      url,
      token,
      startTime,
      call,
      exchange: (path, fields) => {
        const body = Buffer.from(JSON.stringify(fields))
        const type = { 'Content-Type': 'application/json', 'Content-Length': body.length }
        return { method: 'POST', url: url + path, headers: { Authorization: token, ...type }, body }
      },
      dav,
      ping: `${url}/ping`,
      listing: (folder) => ({
        url: `${url}/api/fs/list?path=/${encodedPath(folder)}&page=1&per_page=0`,
        headers: { Authorization: token },
      }),
      download: async (file) => {
        const { sign } = (await call('/api/fs/get', { path: `/${file}` })) as { sign: string }
        return `${url}/d/${encodedPath(file)}?sign=${sign}`
      },
      sftp: { port: Number(sftp.split(':')[1]), username: 'admin' },
      processes: [running],
    }
  } catch (error) {
    await running.stop()
    throw error
  }
}

async function post(url: string, body: unknown, token: string): Promise<unknown> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Authorization: token },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  })
  const { code, message, data } = (await response.json()) as { code: number; message: string; data: unknown }
  if (code !== 200) throw new Error(`${url}: ${code} ${message}`)
  return data
}

/** The data folder whose default storage is `ground.files`. */
export function dataFolder(ground: Ground): string {
  return dirname(ground.files)
}

export const tidegate: PeerType = {
  name: 'tidegate',
  version: async () => `tidegate ${version}, Node ${process.version}`,
  start: (ground) => startTidegate(ownMain, ground, dataFolder(ground)),
}
