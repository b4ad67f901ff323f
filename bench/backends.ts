/**
 * Transfers a large file over WebDAV to a storage on a server, compared with a client that connects to that server
 * directly. The difference is the overhead of Tidegate.
 */
import { mkdir, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { mount, remoteNamed, type StorageAsk } from '../test/servers/remotes.js'
import { newName } from './content.js'
import { isTidegate, password, type Tidegate } from './peers/tidegate.js'
import { rcloneProgram, run } from './programs.js'
import { mebibytes, type Aim, type Bench, type Row } from './row.js'
import { sampled, seconds } from './samples.js'

/** Access to one folder by a client program. */
interface Way {
  write(from: string, name: string): Promise<unknown>
  read(name: string, to: string): Promise<unknown>
  remove(name: string): Promise<unknown>
}

interface Backend {
  /** The storage as the last element, after the storages on which it is based. */
  readonly storages: readonly StorageAsk[]
  /** Direct access, without Tidegate. */
  readonly straight: Way
  stop(): Promise<void>
}

interface BackendType {
  readonly name: string
  readonly title: string
  readonly aims: readonly Aim[]
  start(bench: Bench): Promise<Backend>
}

/** Creates the client for direct access from the options of the storage. */
type Client = (addition: Readonly<Record<string, string>>, bench: Bench) => Promise<Way>

/** An rclone remote with these lines of configuration. */
async function rcloneWay(
  { folder }: Bench,
  lines: readonly string[],
  place: string,
  flags: readonly string[] = [],
): Promise<Way> {
  const config = join(folder, newName())
  await writeFile(config, ['[remote]', ...lines, ''].join('\n'), { mode: 0o600 })
  // rclone's S3 client does not work with a certificate bundle from the environment.
  const rclone = (...words: readonly string[]) =>
    run('env', ['-u', 'AWS_CA_BUNDLE', rcloneProgram, '--config', config, '--retries', '1', ...flags, ...words])
  const at = (name: string) => `remote:${place}/${name}`
  return {
    write: (from, name) => rclone('copyto', from, at(name)),
    read: (name, to) => rclone('copyto', at(name), to),
    remove: (name) => rclone('deletefile', at(name)),
  }
}

async function obscured(secret: string): Promise<string> {
  return (await run(rcloneProgram, ['obscure', secret])).trim()
}

const s3Client: Client = async (addition, bench) => {
  const { access_key_id, secret_access_key, endpoint, region, bucket = '', root_folder_path = '' } = addition
  const settings = Object.entries({ access_key_id, secret_access_key, endpoint, region })
  const lines = settings.map(([key, value]) => `${key} = ${value}`)
  return rcloneWay(
    bench,
    ['type = s3', 'provider = Other', 'no_check_bucket = true', ...lines],
    bucket + root_folder_path,
  )
}

const sftpClient: Client = async (addition, bench) => {
  const { address = '', username, private_key = '', root_folder_path = '' } = addition
  const key = join(bench.folder, newName())
  await writeFile(key, private_key, { mode: 0o600 })
  const [host, port] = address.split(':')
  return rcloneWay(
    bench,
    [
      ...['type = sftp', `host = ${host}`, `port = ${port}`, `user = ${username}`, `key_file = ${key}`],
      ...['shell_type = none', 'disable_hashcheck = true'],
    ],
    root_folder_path,
  )
}

const ftpClient: Client = async (addition, bench) => {
  const { address = '', username, password: secret = '', root_folder_path = '' } = addition
  const [host, port] = address.split(':')
  const account = [`user = ${username}`, `pass = ${await obscured(secret)}`]
  const lines = ['type = ftp', `host = ${host}`, `port = ${port}`, ...account]
  // Multi-threaded downloads abort their transfers, and rclone reports vsftpd's reply to that as a failure.
  return rcloneWay(bench, lines, root_folder_path, ['--multi-thread-streams', '0'])
}

const webDavClient: Client = async (addition, bench) => {
  const { address, username, password: secret = '', root_folder_path = '' } = addition
  const account = [`user = ${username}`, `pass = ${await obscured(secret)}`]
  return rcloneWay(bench, ['type = webdav', `url = ${address}`, 'vendor = other', ...account], root_folder_path)
}

/** smbclient, with one session for each file. */
const smbClient: Client = async (addition, { folder }) => {
  const { address = '', username, password: secret, share_name, root_folder_path } = addition
  const [host, port = ''] = address.split(':')
  const account = join(folder, newName())
  await writeFile(account, `username = ${username}\npassword = ${secret}\n`, { mode: 0o600 })
  const ask = (command: string) =>
    run('smbclient', [
      ...[`//${host}/${share_name}`, '-p', port, '-A', account, '-D', root_folder_path ?? ''],
      ...['-c', command],
    ])
  return {
    write: (from, name) => ask(`put ${from} ${name}`),
    read: (name, to) => ask(`get ${name} ${to}`),
    remove: (name) => ask(`rm ${name}`),
  }
}

/** A storage on one of the servers of the test suite. */
function onServer(name: string, client: Client): BackendType['start'] {
  return async (bench) => {
    const server = await remoteNamed(name).start()
    const storages = await server.storages(`/${name.toLowerCase()}`)
    const addition = storages.at(-1)?.addition as Readonly<Record<string, string>>
    return { storages, straight: await client(addition, bench), stop: () => server.stop() }
  }
}

async function startCrypt(bench: Bench): Promise<Backend> {
  const [place, straight] = [join(bench.folder, 'crypt-backend'), join(bench.folder, 'crypt-straight')]
  for (const each of [place, straight]) await mkdir(each)
  const names = { filename_encryption: 'standard', directory_name_encryption: 'true', filename_encoding: 'base32' }
  const lines = ['type = crypt', `remote = ${straight}`, `password = ${await obscured('tide')}`]
  return {
    storages: [
      { mountPath: '/below', driver: 'Local', addition: { root_folder_path: place } },
      { mountPath: '/crypt', driver: 'Crypt', addition: { ...names, remote_path: '/below', password: 'tide' } },
    ],
    straight: await rcloneWay(bench, lines, ''),
    stop: async () => undefined,
  }
}

const aims = (factor: number): readonly Aim[] => [{ factor, peers: ['rclone'] }]

const types: readonly BackendType[] = [
  { name: 's3', title: 'an S3 mount (Swift)', aims: aims(0.8), start: onServer('S3', s3Client) },
  { name: 'sftp', title: 'an SFTP mount (OpenSSH)', aims: aims(0.8), start: onServer('SFTP', sftpClient) },
  { name: 'ftp', title: 'an FTP mount (vsftpd)', aims: aims(0.8), start: onServer('FTP', ftpClient) },
  { name: 'webdav', title: 'a WebDav mount (Apache)', aims: aims(0.8), start: onServer('WebDav', webDavClient) },
  // The figures of smbclient are in the column of rclone.
  { name: 'smb', title: 'an SMB mount (Samba, beside smbclient)', aims: aims(0.8), start: onServer('SMB', smbClient) },
  { name: 'crypt', title: 'a Crypt mount over Local', aims: aims(1), start: startCrypt },
]

/** State that all measurements of one row share. */
interface Running {
  readonly backend: Backend
  /** rclone over WebDAV, by Tidegate process in which the storages are mounted. */
  readonly protocols: Map<Tidegate, Way>
}

async function throughProtocol(peer: Tidegate, { backend, protocols }: Running, bench: Bench): Promise<Way> {
  const known = protocols.get(peer)
  if (known) return known
  await mount(peer, password, backend.storages)
  const account = ['user = admin', `pass = ${await obscured(password)}`]
  const lines = ['type = webdav', `url = ${peer.url}/dav`, 'vendor = other', ...account]
  const way = await rcloneWay(bench, lines, backend.storages.at(-1)?.mountPath ?? '')
  protocols.set(peer, way)
  return way
}

function row(type: BackendType): Row {
  let running: Running | undefined
  return {
    name: `backend-${type.name}`,
    writes: ({ size }) => 2 * size,
    figures: ({ size }) =>
      ['write', 'read'].map((verb) => ({
        title: `rclone copyto, ${verb} ${mebibytes(size)}, ${type.title}`,
        unit: 's',
        aims: type.aims,
      })),
    async finish() {
      await running?.backend.stop()
    },
    async measure(peer, bench) {
      if (peer.name !== 'rclone' && !isTidegate(peer)) return undefined
      running ??= { backend: await type.start(bench), protocols: new Map() }
      const way = isTidegate(peer) ? await throughProtocol(peer, running, bench) : running.backend.straight
      const [name, back] = [newName(), join(bench.folder, 'back')]
      try {
        const from = join(bench.files, bench.bigFile)
        const write = await sampled(peer, () => seconds(() => way.write(from, name)))
        const read = await sampled(peer, () => seconds(() => way.read(name, back)))
        if ((await stat(back)).size !== bench.size) throw new Error(`${name}: another size than it was written with`)
        return [write, read]
      } finally {
        await rm(back, { force: true })
        await way.remove(name)
      }
    },
  }
}

export const backendRows: readonly Row[] = types.map(row)
