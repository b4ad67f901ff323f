/** A client of the HTTP API that starts tasks and waits for them. */
import { setTimeout as wait } from 'node:timers/promises'
import type { Daemon } from '../gateway.js'

export const kinds = ['copy', 'move', 'upload', 'offline_download'] as const
export type Kind = (typeof kinds)[number]

export interface TaskShown {
  readonly id: string
  readonly name: string
  readonly state: number
  readonly error: string
  readonly status: string
}

/** Signs in, by default as admin. A request to a daemon that is being killed resolves to undefined. */
export async function connect(daemon: Pick<Daemon, 'url' | 'adminPassword'>, username = 'admin') {
  const send = async (path: string, init: RequestInit): Promise<unknown> => {
    try {
      const response = await fetch(daemon.url + path, init)
      const { code, data, message } = (await response.json()) as { code: number; data: unknown; message: string }
      if (code !== 200) throw new Error(`${path}: ${code} ${message}`)
      return data
    } catch (error) {
      if (error instanceof TypeError) return undefined
      throw error
    }
  }
  const json = { 'Content-Type': 'application/json' }
  const login = JSON.stringify({ username, password: daemon.adminPassword })
  const signedIn = await send('/api/auth/login', { method: 'POST', headers: json, body: login })
  const Authorization = (signedIn as { token: string }).token
  return {
    authorization: Authorization,
    post: (path: string, body: unknown) =>
      send(path, { method: 'POST', headers: { ...json, Authorization }, body: JSON.stringify(body) }),
    get: (path: string) => send(path, { headers: { Authorization } }),
    /** The content of a file, by WebDAV. */
    read: async (path: string) => {
      const basic = Buffer.from(`admin:${daemon.adminPassword}`).toString('base64')
      const response = await fetch(`${daemon.url}/dav${path}`, { headers: { Authorization: `Basic ${basic}` } })
      if (!response.ok) throw new Error(`${path}: ${response.status}`)
      return Buffer.from(await response.arrayBuffer())
    },
    upload: (path: string, body: Buffer) =>
      send('/api/fs/put', {
        method: 'PUT',
        headers: { Authorization, 'File-Path': path, 'As-Task': 'true' },
        body: new Uint8Array(body),
      }),
  }
}
export type Client = Awaited<ReturnType<typeof connect>>

export async function ended(client: Client, kind: Kind): Promise<readonly TaskShown[]> {
  for (;;) {
    const undone = (await client.get(`/api/task/${kind}/undone`)) as TaskShown[]
    if (undone.length === 0) return (await client.get(`/api/task/${kind}/done`)) as TaskShown[]
    // Tasks that wait for a retry are retried at once.
    const waiting = undone.filter(({ state }) => state === 8).map(({ id }) => id)
    if (waiting.length > 0) await client.post(`/api/task/${kind}/retry_some`, waiting)
    await wait(20)
  }
}
