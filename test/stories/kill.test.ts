/**
 * The daemon is killed during uploads and at the time of their success responses, repeatedly: an upload whose success
 * was reported is stored, any other has left either the complete old file or the complete new file, and nothing else is
 * left.
 */
import { randomBytes, randomInt } from 'node:crypto'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { startDaemon, storageStarted, type Daemon } from '../gateway.js'
import { filesBelow } from '../stored-files.js'
import { openSftp } from './protocols.js'
import { connect, ended } from './task-client.js'

const rounds = Number(process.env.TIDEGATE_KILL_ROUNDS ?? 4)
const size = 8 * 1024 * 1024
const pieceSize = 64 * 1024

/** Ways to upload, which are also the names of the files. Success of `as-task` means that the task is stored. */
const names = ['http', 'as-task', 'webdav', 'sftp'] as const

/** Resolves to true when success is reported, and to false if the connection breaks before. */
type Upload = (name: string, body: Buffer, sent: (bytes: number) => void) => Promise<boolean>

function* pieces(body: Buffer, sent: (bytes: number) => void) {
  for (let at = 0; at < body.length; at += pieceSize) {
    yield body.subarray(at, at + pieceSize)
    sent(Math.min(body.length, at + pieceSize))
  }
}

function sendByHttp(
  url: string,
  headers: Record<string, string>,
  content: Iterable<Buffer>,
  isSuccess: (status: number | undefined, answer: string) => boolean,
): Promise<boolean> {
  return new Promise((resolve) => {
    const upload = request(url, { method: 'PUT', headers: { ...headers, 'Content-Length': size } })
    upload.on('error', () => resolve(false))
    upload.on('response', (response) => {
      text(response).then(
        (answer) => resolve(isSuccess(response.statusCode, answer)),
        () => resolve(false),
      )
    })
    pipeline(content, upload).catch(() => undefined)
  })
}

/** Uploads by signed-in clients. `authorization` is the token of the API. */
async function uploadsTo(
  daemon: Daemon,
  authorization: string,
): Promise<Readonly<Record<(typeof names)[number], Upload>>> {
  const byApi =
    (headers: Record<string, string> = {}): Upload =>
    (name, body, sent) =>
      sendByHttp(
        `${daemon.url}/api/fs/put`,
        { ...headers, Authorization: authorization, 'File-Path': `/${name}` },
        pieces(body, sent),
        (_status, answer) => (JSON.parse(answer) as { code: number }).code === 200,
      )
  const credentials = Buffer.from(`admin:${daemon.adminPassword}`).toString('base64')
  const { sftp } = await openSftp(daemon, { username: 'admin', password: daemon.adminPassword })
  return {
    http: byApi(),
    'as-task': byApi({ 'As-Task': 'true' }),
    webdav: (name, body, sent) =>
      sendByHttp(
        daemon.davUrl + name,
        { Authorization: `Basic ${credentials}` },
        pieces(body, sent),
        (status) => status === 201 || status === 204,
      ),
    sftp: async (name, body, sent) => {
      try {
        const handle = await promisify(sftp.open.bind(sftp))(`/${name}`, 'w')
        const write = promisify(sftp.write.bind(sftp))
        let at = 0
        for (const piece of pieces(body, sent)) {
          await write(handle, piece, 0, piece.length, at)
          at += piece.length
        }
        await promisify(sftp.close.bind(sftp))(handle)
        return true
      } catch {
        return false
      }
    },
  }
}

void t.test(
  'after a kill, an acknowledged upload is stored, and any other left the old or the new file',
  { timeout: 4 * 3_600_000 },
  async (t) => {
    let daemon = await startDaemon(t)
    await storageStarted(daemon)
    let client = await connect(daemon)
    const files = join(daemon.dataFolder, 'files')
    const stored = new Map<string, Buffer>(names.map((name) => [name, randomBytes(100_000)]))
    for (const [name, content] of stored) await writeFile(join(files, name), content)

    for (let turn = 0; turn < 2 * rounds; turn++) {
      const uploads = await uploadsTo(daemon, client.authorization)
      const bodies = names.map((name) => ({ name, body: randomBytes(size) }))
      // All uploads are sent concurrently. The daemon is killed during one of them, the leader, or by the handler of
      // its response.
      const leader = names[Math.floor(turn / 2) % names.length] ?? ''
      const killAt = turn % 2 === 0 ? randomInt(size) : Infinity
      const answered = await Promise.all(
        bodies.map(async ({ name, body }) => {
          const answer = await uploads[name](name, body, (bytes) => {
            if (name === leader && bytes >= killAt) void daemon.kill()
          })
          if (name === leader) void daemon.kill()
          return answer
        }),
      )
      const at = `killed ${killAt === Infinity ? 'at the answer' : `after ${killAt} bytes`} of ${leader}`
      if (killAt === Infinity)
        t.ok(
          bodies.some(({ name }, index) => name === leader && answered[index]),
          `${at}: a success`,
        )

      daemon = await startDaemon(t, { dataFolder: daemon.dataFolder, adminPassword: daemon.adminPassword })
      await storageStarted(daemon)
      client = await connect(daemon)
      await ended(client, 'upload')
      for (const [index, { name, body }] of bodies.entries()) {
        const now = await readFile(join(files, name))
        const isNew = now.equals(body)
        if (answered[index]) t.ok(isNew, `${at}: ${name} had a success response and is stored`)
        else t.ok(isNew || stored.get(name)?.equals(now), `${at}: ${name} had no response and is one complete file`)
        if (isNew) stored.set(name, body)
      }
      t.same((await filesBelow(files)).sort(), [...names].sort(), `${at}: no temporary file is left`)
      t.same(await readdir(join(daemon.dataFolder, 'spool')), [], `${at}: the spool is empty`)
    }
    await daemon.stop()
  },
)
