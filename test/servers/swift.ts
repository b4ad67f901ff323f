/**
 * OpenStack Swift with its S3 API: proxy, account, container and object server over one folder, and the memcached that
 * the proxy caches facts of containers in. All of them listen on loopback only and store their files in one temporary
 * folder.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { promisify } from 'node:util'
import { findProgram } from '../programs.js'
import { freePorts } from './free-port.js'

export const swiftPrograms = [
  'swift-proxy-server',
  'swift-account-server',
  'swift-container-server',
  'swift-object-server',
  'swift-ring-builder',
  'memcached',
]

export interface SwiftServer {
  /** `http://127.0.0.1:<port>` */
  readonly endpoint: string
  readonly port: number
  readonly region: string
  readonly accessKey: string
  readonly secretKey: string
  stop(): Promise<void>
}

const run = promisify(execFile)
const parts = ['account', 'container', 'object'] as const
const account = { user: 'test:tester', secret: 'secret-for-tests' }

/** `page`: the number of keys in one page of a listing. */
export async function startSwift(page = 1000): Promise<SwiftServer> {
  const folder = await mkdtemp(join(tmpdir(), 'swift-'))
  const ports = await freePorts(5)
  const [proxyPort = 0, cachePort = 0, ...partPorts] = ports
  await mkdir(join(folder, 'data', 'disk'), { recursive: true })
  await mkdir(join(folder, 'cache'))
  const common = [
    'bind_ip = 127.0.0.1',
    `swift_dir = ${folder}`,
    `user = ${userInfo().username}`,
    // 0: the started process serves requests itself, so stopping it stops the server.
    'workers = 0',
    `log_address = ${join(folder, 'no-log-socket')}`,
    'log_level = ERROR',
  ]
  await writeFile(
    join(folder, 'swift.conf'),
    ini({
      'swift-hash': ['swift_hash_path_suffix = tests', 'swift_hash_path_prefix = tests'],
      'storage-policy:0': ['name = one', 'default = yes'],
    }),
  )
  const setUp = async (part: (typeof parts)[number], port: number) => {
    await writeFile(
      join(folder, `${part}-server.conf`),
      ini({
        DEFAULT: [...common, `bind_port = ${port}`, `devices = ${join(folder, 'data')}`, 'mount_check = false'],
        'pipeline:main': [`pipeline = ${part}-server`],
        [`app:${part}-server`]: [
          `use = egg:swift#${part}`,
          'fallocate_reserve = 0',
          `recon_cache_path = ${join(folder, 'cache')}`,
        ],
      }),
    )
    const builder = join(folder, `${part}.builder`)
    await run(program('swift-ring-builder'), [builder, 'create', '4', '1', '0'])
    await run(program('swift-ring-builder'), [builder, 'add', `r1z1-127.0.0.1:${port}/disk`, '1'])
    await run(program('swift-ring-builder'), [builder, 'rebalance'])
  }
  await Promise.all(parts.map((part, index) => setUp(part, partPorts[index] ?? 0)))
  await writeFile(
    join(folder, 'proxy-server.conf'),
    ini({
      DEFAULT: [...common, `bind_port = ${proxyPort}`],
      'pipeline:main': ['pipeline = catch_errors cache s3api tempauth copy slo dlo proxy-server'],
      'app:proxy-server': ['use = egg:swift#proxy', 'account_autocreate = true', 'allow_account_management = true'],
      'filter:catch_errors': ['use = egg:swift#catch_errors'],
      'filter:cache': ['use = egg:swift#memcache', `memcache_servers = 127.0.0.1:${cachePort}`],
      'filter:s3api': ['use = egg:swift#s3api', 's3_acl = false', `max_bucket_listing = ${page}`],
      'filter:tempauth': [
        'use = egg:swift#tempauth',
        `user_${account.user.replace(':', '_')} = ${account.secret} .admin`,
      ],
      'filter:copy': ['use = egg:swift#copy'],
      'filter:slo': ['use = egg:swift#slo'],
      'filter:dlo': ['use = egg:swift#dlo'],
    }),
  )

  const log = createWriteStream(join(folder, 'log'))
  await once(log, 'open')
  const children = [
    spawn(program('memcached'), ['-l', '127.0.0.1', '-p', String(cachePort), '-U', '0', '-u', userInfo().username], {
      stdio: ['ignore', log, log],
    }),
    ...[...parts, 'proxy' as const].map((part) =>
      spawn(program(`swift-${part}-server`), [join(folder, `${part}-server.conf`)], { stdio: ['ignore', log, log] }),
    ),
  ]
  const stop = async () => {
    await Promise.all(children.map(end))
    log.destroy()
    await rm(folder, { recursive: true, force: true })
  }
  try {
    await Promise.all(children.map((child) => once(child, 'spawn')))
    await answers(`http://127.0.0.1:${proxyPort}/info`, children, 200)
    for (const port of partPorts) await answers(`http://127.0.0.1:${port}/recon/version`, children)
  } catch (error) {
    const lines = await readFile(join(folder, 'log'), 'utf8')
    await stop()
    throw new Error(`${(error as Error).message}\n${lines.slice(-2000)}`, { cause: error })
  }
  return {
    endpoint: `http://127.0.0.1:${proxyPort}`,
    port: proxyPort,
    region: 'us-east-1',
    accessKey: account.user,
    secretKey: account.secret,
    stop,
  }
}

/** The lines of each section, by its name. */
function ini(sections: Readonly<Record<string, readonly string[]>>): string {
  return Object.entries(sections)
    .map(([name, lines]) => [`[${name}]`, ...lines, ''].join('\n'))
    .join('\n')
}

function program(name: string): string {
  const found = findProgram(name)
  if (found === undefined) throw new Error(`${name} is not installed`)
  return found
}

/** Waits for a response, with this status if one is given. Rejects if one of the servers has ended. */
async function answers(url: string, servers: readonly ChildProcess[], status?: number): Promise<void> {
  for (;;) {
    const answer = await fetch(url).catch(() => undefined)
    await answer?.arrayBuffer()
    if (answer && (status === undefined || answer.status === status)) return
    const ended = servers.find(({ exitCode, signalCode }) => exitCode !== null || signalCode !== null)
    if (ended) throw new Error(`no answer from ${url}: ${ended.spawnfile} has ended`)
    await pause(100)
  }
}

/** Sends SIGKILL: on SIGTERM it would wait for idle connections, and its files are not needed any more. */
async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}
