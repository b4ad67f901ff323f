/** The daemon is killed in the middle of an upload, again and again: the old file is whole and nothing is left beside it. */
import { randomBytes, randomInt } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { Client } from 'ssh2'
import t from 'tap'
import { startDaemon, type Daemon } from '../gateway.js'
import { connectHttp, type Where } from './protocols.js'

const rounds = Number(process.env.TIDEGATE_KILL_ROUNDS ?? 4)
const size = 8 * 1024 * 1024

type Upload = (daemon: Daemon, path: string, body: Buffer, sent: (bytes: number) => void) => Promise<void>

/** Sends a body in pieces; the connection breaks when the daemon dies, which is no failure here. */
function sendByHttp(
  url: string,
  method: string,
  headers: Record<string, string>,
  body: Buffer,
  sent: (bytes: number) => void,
) {
  return new Promise<void>((resolve) => {
    const upload = request(url, { method, headers: { ...headers, 'Content-Length': body.length } })
    upload.on('error', () => resolve())
    upload.on('response', (response) => response.resume().on('close', () => resolve()))
    const pump = async () => {
      for (let at = 0; at < body.length && !upload.destroyed; at += 65536) {
        if (!upload.write(body.subarray(at, at + 65536)))
          await Promise.race([new Promise((go) => upload.once('drain', go)), wait(1000)])
        sent(Math.min(body.length, at + 65536))
      }
      upload.end()
    }
    void pump()
  })
}

const uploads: Readonly<Record<string, Upload>> = {
  http: async (daemon, path, body, sent) => {
    const response = await fetch(`${daemon.url}/api/auth/login`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ username: 'admin', password: daemon.adminPassword }),
    })
    const { data } = (await response.json()) as { data: { token: string } }
    await sendByHttp(`${daemon.url}/api/fs/put`, 'PUT', { Authorization: data.token, 'File-Path': path }, body, sent)
  },
  webdav: async (daemon, path, body, sent) => {
    const credentials = Buffer.from(`admin:${daemon.adminPassword}`).toString('base64')
    await sendByHttp(
      daemon.davUrl.replace(/\/$/, '') + path,
      'PUT',
      { Authorization: `Basic ${credentials}` },
      body,
      sent,
    )
  },
  sftp: (daemon, path, body, sent) =>
    new Promise((resolve) => {
      const client = new Client()
      client.on('error', () => resolve()).on('close', () => resolve())
      client.on('ready', () =>
        client.sftp((error, sftp) => {
          if (error) {
            resolve()
            return
          }
          const stream = sftp.createWriteStream(path)
          stream.on('error', () => resolve())
          stream.on('close', () => client.end())
          const pump = async () => {
            for (let at = 0; at < body.length && !stream.destroyed; at += 65536) {
              const flowing = stream.write(body.subarray(at, at + 65536))
              if (!flowing) await Promise.race([new Promise((go) => stream.once('drain', go)), wait(1000)])
              sent(Math.min(body.length, at + 65536))
            }
            stream.end()
          }
          void pump()
        }),
      )
      client.connect({ host: '127.0.0.1', port: daemon.sftpPort, username: 'admin', password: daemon.adminPassword })
    }),
}

/** On a busy machine the program is ready before its storage has started, and what dead runs left is swept by that start. */
async function storageStarted({ davUrl, adminPassword }: Daemon): Promise<void> {
  const authorization = `Basic ${Buffer.from(`admin:${adminPassword}`).toString('base64')}`
  for (;;) {
    const { ok, body } = await fetch(`${davUrl}file`, { method: 'HEAD', headers: { authorization } })
    await body?.cancel()
    if (ok) return
    await wait(100)
  }
}

/** Every file below the storage's folder, the staging folder's included. */
async function filesBelow(folder: string): Promise<string[]> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true })
  return found.filter((entry) => !entry.isDirectory()).map((entry) => entry.name)
}

void t.test(
  'after a kill during an upload, only the complete old file exists',
  { timeout: 4 * 3_600_000 },
  async (t) => {
    for (const [protocol, upload] of Object.entries(uploads)) {
      await t.test(protocol, async (t) => {
        let daemon = await startDaemon(t)
        const where: Where = daemon
        const old = randomBytes(100_000)
        const http = await connectHttp(where, { username: 'admin', password: daemon.adminPassword })
        t.equal(await http.put('/file', old), 'done')
        const file = join(daemon.dataFolder, 'files', 'file')
        let whole = old
        for (let round = 0; round < rounds; round++) {
          const body = randomBytes(size)
          const killAt = randomInt(size)
          let killed: Promise<void> | undefined
          await upload(daemon, '/file', body, (bytes) => {
            if (bytes >= killAt) killed ??= daemon.kill()
          })
          await (killed ?? daemon.kill())
          daemon = await startDaemon(t, { dataFolder: daemon.dataFolder, adminPassword: daemon.adminPassword })
          await storageStarted(daemon)
          const now = await readFile(file)
          const kept = now.equals(whole)
          t.ok(
            kept || now.equals(body),
            `round ${round}: killed at ${killAt}: one whole file, ${kept ? 'the old' : 'the new'} one`,
          )
          if (!kept) whole = body
          t.same(await filesBelow(join(daemon.dataFolder, 'files')), ['file'], 'no temporary file is left')
        }
        await daemon.stop()
      })
    }
  },
)
