/**
 * A large file through the WebDAV door into a storage on a server, beside rclone that takes it there straight: the same client,
 * the same server, the same file. What stands between is ours.
 */
import { mkdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { startOpenSsh } from '../test/services/openssh.js'
import { startSwift } from '../test/services/swift.js'
import type { Tidegate } from './peers/tidegate.js'
import { password } from './peers/tidegate.js'
import { run, seconds } from './programs.js'
import type { Aim, Bench, Row } from './row.js'
import { newName } from './small-files.js'
import { isTidegate } from './transfers.js'

interface Backend {
  /** Of the storage, and of what it stands on. */
  readonly storages: readonly { readonly mountPath: string; readonly driver: string; readonly addition: object }[]
  /** Sections of rclone's configuration, the remote `straight` among them. */
  readonly config: readonly string[]
  /** Where files are, in `straight:`. */
  readonly place: string
  stop(): Promise<void>
}

interface BackendType {
  readonly name: string
  readonly title: string
  readonly aims: readonly Aim[]
  start(bench: Bench): Promise<Backend>
}

async function startS3(): Promise<Backend> {
  const swift = await startSwift()
  const { endpoint, region, accessKey: accessKeyId, secretKey: secretAccessKey } = swift
  const client = new S3Client({ endpoint, region, forcePathStyle: true, credentials: { accessKeyId, secretAccessKey } })
  await client.send(new CreateBucketCommand({ Bucket: 'bench' }))
  client.destroy()
  const keys = { access_key_id: accessKeyId, secret_access_key: secretAccessKey }
  const addition = { ...keys, bucket: 'bench', endpoint, region, force_path_style: true, root_folder_path: '/' }
  const settings = Object.entries({ ...keys, endpoint, region }).map(([key, value]) => `${key} = ${value}`)
  return {
    storages: [{ mountPath: '/s3', driver: 'S3', addition }],
    config: ['[straight]', 'type = s3', 'provider = Other', 'no_check_bucket = true', ...settings],
    place: 'bench',
    stop: () => swift.stop(),
  }
}

async function startSftp({ folder }: Bench): Promise<Backend> {
  const server = await startOpenSsh()
  const place = join(folder, 'sftp-backend')
  await mkdir(place)
  const key = join(folder, 'sftp-backend-key')
  await writeFile(key, server.privateKey, { mode: 0o600 })
  const { address, username, privateKey } = server
  const addition = { address, username, private_key: privateKey, root_folder_path: place }
  const [host = '', port = ''] = address.split(':')
  return {
    storages: [{ mountPath: '/sftp', driver: 'SFTP', addition }],
    config: [
      ...['[straight]', 'type = sftp', `host = ${host}`, `port = ${port}`, `user = ${username}`, `key_file = ${key}`],
      ...['shell_type = none', 'disable_hashcheck = true'],
    ],
    place,
    stop: () => server.stop(),
  }
}

async function startCrypt({ folder }: Bench): Promise<Backend> {
  const [place, straight] = [join(folder, 'crypt-backend'), join(folder, 'crypt-straight')]
  for (const each of [place, straight]) await mkdir(each)
  const secret = (await run('rclone', ['obscure', 'tide'])).trim()
  const names = { filename_encryption: 'standard', directory_name_encryption: 'true', filename_encoding: 'base32' }
  return {
    storages: [
      { mountPath: '/below', driver: 'Local', addition: { root_folder_path: place } },
      { mountPath: '/crypt', driver: 'Crypt', addition: { ...names, remote_path: '/below', password: 'tide' } },
    ],
    config: ['[straight]', 'type = crypt', `remote = ${straight}`, `password = ${secret}`],
    place: '',
    stop: async () => undefined,
  }
}

/** Without a bundle of certificates of the machine's own, which its client for S3 cannot work with. */
function rclone(words: readonly string[]): Promise<string> {
  return run('env', ['-u', 'AWS_CA_BUNDLE', 'rclone', ...words])
}

const aims = (factor: number): readonly Aim[] => [{ factor, peers: ['rclone'] }]

const types: readonly BackendType[] = [
  { name: 's3', title: 'an S3 mount (Swift)', aims: aims(0.8), start: startS3 },
  { name: 'sftp', title: 'an SFTP mount (OpenSSH)', aims: aims(0.8), start: startSftp },
  { name: 'crypt', title: 'a Crypt mount over Local', aims: aims(1), start: startCrypt },
]

/** What stays the same over all measurements of one row. */
interface Running {
  readonly backend: Backend
  readonly config: string
  /** Tidegates that have the storages already. */
  readonly mounted: Set<Tidegate>
}

async function begin(type: BackendType, bench: Bench): Promise<Running> {
  const backend = await type.start(bench)
  const config = join(bench.folder, `rclone-${type.name}.conf`)
  await writeFile(config, [...backend.config, ''].join('\n'))
  return { backend, config, mounted: new Set() }
}

/** A remote of rclone's own that goes through our door. */
async function throughDoor(peer: Tidegate, { backend, config, mounted }: Running): Promise<string> {
  const mountPath = backend.storages.at(-1)?.mountPath ?? ''
  if (mounted.has(peer)) return `door:${mountPath}`
  for (const storage of backend.storages) {
    await peer.call('/api/admin/storage/create', {
      mount_path: storage.mountPath,
      driver: storage.driver,
      addition: JSON.stringify(storage.addition),
      webdav_policy: 'native_proxy',
    })
  }
  const secret = (await run('rclone', ['obscure', password])).trim()
  const door = [
    '[door]',
    'type = webdav',
    `url = ${peer.url}/dav`,
    'vendor = other',
    'user = admin',
    `pass = ${secret}`,
  ]
  await writeFile(config, [...backend.config, ...door, ''].join('\n'))
  mounted.add(peer)
  return `door:${mountPath}`
}

function row(type: BackendType): Row {
  let running: Running | undefined
  return {
    name: `backend-${type.name}`,
    writes: ({ size }) => 2 * size,
    figures: ({ size }) =>
      ['write', 'read'].map((verb) => ({
        title: `rclone copyto, ${verb} ${Math.round(size / 2 ** 20)} MiB, ${type.title}`,
        unit: 's',
        aims: type.aims,
      })),
    async prepare(bench) {
      running = await begin(type, bench)
    },
    async finish() {
      await running?.backend.stop()
    },
    async measure(peer, bench) {
      if (running === undefined || (peer.name !== 'rclone' && !isTidegate(peer))) return undefined
      const { config, backend } = running
      const remote = isTidegate(peer) ? await throughDoor(peer, running) : `straight:${backend.place}`
      const copy = (from: string, to: string) =>
        seconds(() => rclone(['--config', config, '--retries', '1', 'copyto', from, to]))
      const [there, back] = [`${remote}/${newName()}`, join(bench.folder, 'back')]
      try {
        const write = await copy(join(bench.files, bench.bigFile), there)
        const read = await copy(there, back)
        if ((await stat(back)).size !== bench.size) throw new Error(`${there}: another size than it was written with`)
        return [write, read]
      } finally {
        await rm(back, { force: true })
        await rclone(['--config', config, 'deletefile', there])
      }
    },
  }
}

export const backendRows: readonly Row[] = types.map(row)
