/** A large upload and download by each protocol: the daemon's resident memory remains near that of an idle one. */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { promisify } from 'node:util'
import t from 'tap'
import { startDaemon } from '../gateway.js'
import { sendInChunks } from './chunked-upload.js'
import { resident, risen } from '../resident-memory.js'

const run = promisify(execFile)
const mebibyte = 1024 * 1024
const size = Number(process.env.TIDEGATE_LARGE_MIB ?? 256) * mebibyte

async function digest(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file, { highWaterMark: mebibyte }), hash)
  return hash.digest('hex')
}

void t.test(
  'memory does not grow with the size of a file',
  { timeout: 4 * 3_600_000, skip: process.platform !== 'linux' && 'reads /proc' },
  async (t) => {
    const folder = await mkdtemp(join(tmpdir(), 'tidegate-large-'))
    t.teardown(() => rm(folder, { recursive: true, force: true }))
    const file = join(folder, 'large')
    const random = createReadStream('/dev/urandom', { end: size - 1, highWaterMark: mebibyte })
    await pipeline(random, createWriteStream(file))
    const expected = await digest(file)
    const daemon = await startDaemon(t)
    const credentials = Buffer.from(`admin:${daemon.adminPassword}`).toString('base64')
    const signIn = await fetch(`${daemon.url}/api/auth/login`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ username: 'admin', password: daemon.adminPassword }),
    })
    const { data } = (await signIn.json()) as { data: { token: string } }
    const key = join(folder, 'key')
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key])
    await fetch(`${daemon.url}/api/me/sshkey/add`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', Authorization: data.token },
      body: JSON.stringify({ title: 'test', key: await readFile(`${key}.pub`, 'utf8') }),
    })
    const idle = await resident(daemon)
    t.comment(`idle: ${Math.round(idle / mebibyte)} MiB`)

    const send = (url: string, headers: Record<string, string>) =>
      new Promise<number>((resolve, reject) => {
        const upload = request(url, { method: 'PUT', headers: { ...headers, 'Content-Length': size } }, (response) => {
          response.resume().on('end', () => resolve(response.statusCode ?? 0))
        })
        pipeline(createReadStream(file, { highWaterMark: mebibyte }), upload).catch(reject)
      })
    const receive = async (url: string, headers: Record<string, string>) => {
      const target = join(folder, 'back')
      await new Promise<void>((resolve, reject) => {
        request(url, { headers }, (response) => {
          pipeline(response, createWriteStream(target)).then(resolve, reject)
        }).end()
      })
      t.equal(await digest(target), expected, 'the content is unchanged')
    }
    const sftp = async (command: string) => {
      const batch = join(folder, 'batch')
      await writeFile(batch, `${command}\n`)
      const options = [
        '-q',
        '-i',
        key,
        '-P',
        String(daemon.sftpPort),
        '-o',
        'StrictHostKeyChecking=no',
        '-o',
        'UserKnownHostsFile=/dev/null',
        '-b',
        batch,
      ]
      await run('sftp', [...options, 'admin@127.0.0.1'])
    }
    const dav = daemon.davUrl.replace(/\/$/, '')
    const basic = { Authorization: `Basic ${credentials}` }
    const ways: readonly [string, () => Promise<unknown>][] = [
      ['up by HTTP', () => send(`${daemon.url}/api/fs/put`, { Authorization: data.token, 'File-Path': '/large' })],
      ['up by HTTP in chunks', () => sendInChunks(daemon.url, data.token, file, '/large in chunks')],
      [
        'down by HTTP',
        async () => {
          const got = await fetch(`${daemon.url}/api/fs/get`, {
            method: 'POST',
            headers: { 'Content-Type': 'application/json', Authorization: data.token },
            body: '{"path":"/large"}',
          })
          await receive(((await got.json()) as { data: { raw_url: string } }).data.raw_url, {})
        },
      ],
      [
        'down as an archive',
        async () => {
          const archive = join(folder, 'archive')
          const target = `${daemon.url}/api/fs/zip?path=%2F&names=large`
          await new Promise<void>((resolve, reject) => {
            request(target, { headers: { Authorization: data.token } }, (response) => {
              pipeline(response, createWriteStream(archive)).then(resolve, reject)
            }).end()
          })
          // The content is stored, after the header of its file.
          const hash = createHash('sha256')
          const start = 30 + 'large'.length + 9
          await pipeline(createReadStream(archive, { start, end: start + size - 1 }), hash)
          t.equal(hash.digest('hex'), expected, 'the content is unchanged')
        },
      ],
      ['up by WebDAV', () => send(`${dav}/large by webdav`.replaceAll(' ', '%20'), basic)],
      ['down by WebDAV', () => receive(`${dav}/large%20by%20webdav`, basic)],
      ['up by SFTP', () => sftp(`put ${file} /sftp`)],
      [
        'down by SFTP',
        async () => {
          const target = join(folder, 'back')
          await sftp(`get /sftp ${target}`)
          t.equal(await digest(target), expected, 'the content is unchanged')
        },
      ],
    ]
    for (const [title, work] of ways) {
      const rise = await risen(daemon, idle, work)
      t.ok(rise < 100, `${title}: ${rise} MiB above idle`)
    }
    t.equal((await stat(join(daemon.dataFolder, 'files', 'large'))).size, size)
    t.equal(await digest(join(daemon.dataFolder, 'files', 'large in chunks')), expected)
    await daemon.stop()
  },
)
