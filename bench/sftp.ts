/** Large and small files over SFTP. */
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client, type SFTPWrapper } from 'ssh2'
import { newName, smallContent } from './content.js'
import { inStreams } from './http-client.js'
import type { SftpServer } from './peers/peer.js'
import { oldRcloneNote, rcloneProgram, run, sftpBatch, type SftpOptions } from './programs.js'
import { counted, mebibytes, scaled, type Aim, type Bench, type Row } from './row.js'
import { sampled, seconds } from './samples.js'

const aims: readonly Aim[] = [{ factor: 1, peers: ['openssh'] }]
const ciphers = { gcm: 'aes128-gcm@openssh.com', chacha: 'chacha20-poly1305@openssh.com' } as const
const blocks = [32_768, 261_120] as const

function large(name: keyof typeof ciphers, block: number): Row {
  const options: SftpOptions = { cipher: ciphers[name], block }
  return {
    name: `sftp-${name}-${block}`,
    writes: ({ size }) => size,
    figures: ({ size }) =>
      ['GET', 'PUT'].map((verb) => ({
        title: `SFTP ${verb} ${mebibytes(size)}, -B ${block}, ${name === 'gcm' ? 'aes128-gcm' : 'chacha20'}`,
        unit: 's',
        aims,
      })),
    async measure(peer, bench) {
      const { sftp } = peer
      if (sftp === undefined) return undefined
      return [
        await sampled(peer, () => getOverSftp(bench, sftp, options)),
        await sampled(peer, () => putOverSftp(bench, sftp, options)),
      ]
    },
  }
}

const defaults: SftpOptions = { cipher: ciphers.gcm, block: 32_768 }

export function getOverSftp(bench: Bench, protocol: SftpServer, options = defaults): Promise<number> {
  return sftpBatch(bench, protocol, options, [`get ${bench.bigFile} /dev/null`])
}

export async function putOverSftp(bench: Bench, protocol: SftpServer, options = defaults): Promise<number> {
  const name = newName()
  try {
    return await sftpBatch(bench, protocol, options, [`put ${join(bench.files, bench.bigFile)} ${name}`])
  } finally {
    await rm(join(bench.files, name), { force: true })
  }
}

const streams = 8
const smallCount = 10_000
/** OpenSSH has one process for each connection; Tidegate serves all of them in one process. */
const least: Aim = { factor: 0.7, peers: ['openssh'] }

const small: Row = {
  name: 'sftp-small',
  figures: (bench) => [
    {
      title: `${counted(scaled(bench, smallCount))} × 1 KiB over SFTP, 8 connections, put`,
      unit: 's',
      aims: [least, { factor: 1.33, peers: ['openssh'] }], // SFTPGo
    },
    {
      title: 'the same, get',
      unit: 's',
      aims: [least, { factor: 1.06, peers: ['openssh'] }], // SFTPGo
    },
  ],
  async measure(peer, bench) {
    const { sftp: protocol } = peer
    if (protocol === undefined) return undefined
    const count = scaled(bench, smallCount)
    const folder = newName()
    const privateKey = await readFile(bench.clientKey)
    const sessions = await Promise.all(Array.from({ length: streams }, () => openSession(protocol, privateKey)))
    const session = (stream: number): SFTPWrapper => {
      const found = sessions[stream]
      if (found === undefined) throw new Error('there is no such stream')
      return found.sftp
    }
    const name = (index: number) => `${folder}/${index}`
    try {
      await asked<undefined>((done) => session(0).mkdir(folder, (e) => done(e, undefined)))
      const all = (work: (sftp: SFTPWrapper, path: string) => Promise<void>) =>
        sampled(peer, async () => {
          const value = await seconds(() =>
            inStreams(count, streams, (index, stream) => work(session(stream), name(index))),
          )
          return { value, requests: count }
        })
      return [await all(putFile), await all(getFile)]
    } finally {
      for (const { client } of sessions) client.end()
    }
  },
}

/** Opens a connection with an idle session. */
export function openSession(
  { port, username }: SftpServer,
  privateKey: Buffer,
): Promise<{ client: Client; sftp: SFTPWrapper }> {
  const client = new Client()
  return new Promise((resolve, reject) => {
    client
      .on('ready', () => {
        client.sftp((error, sftp) => (error ? reject(error) : resolve({ client, sftp })))
      })
      .on('error', reject)
      .connect({
        host: '127.0.0.1',
        port,
        username,
        privateKey,
        readyTimeout: 30_000,
        algorithms: { cipher: ['aes128-gcm@openssh.com'] },
      })
  })
}

/** Converts a callback of ssh2 to a promise. */
function asked<T>(call: (done: (error: Error | null | undefined, value: T) => void) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, value) => (error ? reject(error) : resolve(value)))
  })
}

async function putFile(sftp: SFTPWrapper, path: string): Promise<void> {
  const handle = await asked<Buffer>((done) => sftp.open(path, 'w', done))
  await asked<undefined>((done) =>
    sftp.write(handle, smallContent, 0, smallContent.length, 0, (e) => done(e, undefined)),
  )
  await asked<undefined>((done) => sftp.close(handle, (e) => done(e, undefined)))
}

async function getFile(sftp: SFTPWrapper, path: string): Promise<void> {
  const handle = await asked<Buffer>((done) => sftp.open(path, 'r', done))
  const into = Buffer.alloc(smallContent.length)
  const bytes = await asked<number>((done) => sftp.read(handle, into, 0, into.length, 0, done))
  if (bytes !== smallContent.length) throw new Error(`${path}: ${bytes} bytes`)
  await asked<undefined>((done) => sftp.close(handle, (e) => done(e, undefined)))
}

const copied = 2000

/** `rclone copy`, as users run it: uploads to a temporary name and renames. */
const rcloneCopy: Row = {
  name: 'sftp-rclone',
  note: oldRcloneNote,
  figures: (bench) => [
    {
      title: `rclone copy of ${counted(scaled(bench, copied))} × 1 KiB into SFTP`,
      unit: 's',
      aims: [1, 1.25].map((factor) => ({ factor, peers: ['rclone'] })),
    },
    {
      title: 'the same, out of SFTP',
      unit: 's',
      aims: [0.9, 1.25].map((factor) => ({ factor, peers: ['rclone'] })),
    },
  ],
  async prepare(bench) {
    const source = join(bench.folder, 'rclone-source')
    await mkdir(source)
    for (let file = 0; file < scaled(bench, copied); file++) await writeFile(join(source, `file-${file}`), smallContent)
  },
  async measure(peer, bench) {
    const { sftp } = peer
    if (sftp === undefined) return undefined
    const [name, back] = [newName(), join(bench.folder, newName())]
    const account = `host=127.0.0.1,port=${sftp.port},user=${sftp.username},key_file=${bench.clientKey}`
    const remote = `:sftp,${account},shell_type=none,disable_hashcheck=true:${name}`
    const count = scaled(bench, copied)
    const copy = (from: string, to: string) =>
      sampled(peer, async () => {
        const words = [
          'copy',
          '--config',
          '/dev/null',
          '--retries',
          '1',
          '--transfers',
          '8',
          '--checkers',
          '8',
          from,
          to,
        ]
        return { value: await seconds(() => run(rcloneProgram, words)), requests: count }
      })
    const into = await copy(join(bench.folder, 'rclone-source'), remote)
    const out = await copy(remote, back)
    const arrived = (await readdir(back)).length
    if (arrived !== count) throw new Error(`${arrived} of ${count} files came back`)
    return [into, out]
  },
}

export const sftpRows: readonly Row[] = [
  ...blocks.map((block) => large('gcm', block)),
  ...blocks.map((block) => large('chacha', block)),
  small,
  rcloneCopy,
]
