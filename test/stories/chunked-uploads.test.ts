/**
 * Uploads in chunks to the real daemon: what a kill leaves, and clients that send slowly, wrongly or never the rest.
 */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { startDaemon, storageStarted, type Daemon } from '../gateway.js'
import { resident, risen } from '../resident-memory.js'
import { filesBelow } from '../stored-files.js'
import { askUpload, beginUpload, sendChunk, sendInChunks } from './chunked-upload.js'

const mebibyte = 1024 * 1024

async function tokenOf({ url, adminPassword: password }: Daemon): Promise<string> {
  const response = await fetch(`${url}/api/auth/login`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ username: 'admin', password }),
  })
  return ((await response.json()) as { data: { token: string } }).data.token
}

void t.test('a killed daemon leaves nothing of an upload in chunks', async (t) => {
  const daemon = await startDaemon(t)
  const token = await tokenOf(daemon)
  const file = join(t.testdir(), 'file')
  await writeFile(file, randomBytes(25 * mebibyte))
  const upload = await beginUpload(daemon.url, token, '/file', 25 * mebibyte)
  t.equal((await sendChunk(daemon.url, token, upload, file, 0)).code, 200)
  const folder = join(daemon.dataFolder, 'files')
  t.equal((await filesBelow(folder)).length, 1)
  await daemon.kill()
  const next = await startDaemon(t, daemon)
  await storageStarted(next)
  while ((await filesBelow(folder)).length > 0) await delay(50)
  const answer = await askUpload(next.url, token, ['POST', 'complete'], { 'X-Upload-Id': upload.upload_id })
  t.match(answer, { code: 404 })
  await sendInChunks(next.url, token, file, '/file')
  t.same(await filesBelow(folder), ['file'])
  t.equal(await next.stop(), 0)
})

void t.test(
  'memory does not grow with clients that send no more',
  { skip: process.platform !== 'linux' && 'reads /proc' },
  async (t) => {
    const daemon = await startDaemon(t)
    const token = await tokenOf(daemon)
    const { port } = new URL(daemon.url)
    const sockets: Socket[] = []
    t.teardown(() => sockets.forEach((socket) => socket.destroy()))
    const idle = await resident(daemon)
    const some = Buffer.alloc(2 * mebibyte)
    const rise = await risen(daemon, idle, async () => {
      for (let number = 0; number < 32; number++) {
        const { upload_id: id } = await beginUpload(daemon.url, token, `/file ${number}`, 1000 * mebibyte)
        for (let index = 0; index < 8; index++) {
          const socket = connect(Number(port), '127.0.0.1').on('error', () => undefined)
          sockets.push(socket)
          const head = `PUT /api/fs/multipart/chunk HTTP/1.1\r\nHost: x\r\nAuthorization: ${token}\r\n`
          socket.write(
            `${head}X-Upload-Id: ${id}\r\nX-Chunk-Index: ${index}\r\nContent-Length: ${10 * mebibyte}\r\n\r\n`,
          )
          socket.write(some)
        }
      }
      await delay(3000)
    })
    t.comment(`${rise} MiB for ${sockets.length} requests`)
    t.ok(rise < 100, `${rise} MiB above idle`)
    t.equal(await daemon.stop(), 0)
    t.same(await filesBelow(join(daemon.dataFolder, 'files')), [])
  },
)
