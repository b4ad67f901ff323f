/**
 * PostgreSQL in a folder of its own, without a system service. It refuses to run as root and then runs as `postgres`.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { findProgram } from '../programs.js'
import type { CertificateFiles } from './certificates.js'
import { freePort } from './free-port.js'
import { accountIds } from './ftp-process.js'
import { startLasting, type LastingProgram } from './started-program.js'

const run = promisify(execFile)

export interface PostgresServer extends LastingProgram {
  readonly port: number
  /** The URL of a database, with user and password. */
  urlOf(database: string): string
  /** Creates an empty database, with these options of the statement. Resolves to its URL, with user and password. */
  createDatabase(options?: string): Promise<string>
  /** Runs one statement in a database, by default in `postgres`, as superuser. */
  query(statement: string, url?: string): Promise<readonly Record<string, unknown>[]>
}

/** Starts a server. `settings`: further lines of its configuration, `NAME=VALUE`. `tls`: PEM files; absent: no TLS. */
export async function startPostgres(settings: readonly string[] = [], tls?: CertificateFiles): Promise<PostgresServer> {
  const initdb = findProgram('initdb')
  if (initdb === undefined) throw new Error('PostgreSQL is not installed')
  const folder = await mkdtemp(join(tmpdir(), 'tidegate-postgres-'))
  const isRoot = process.getuid?.() === 0
  const ids = isRoot ? await accountIds('postgres') : undefined
  const ownFile = async (name: string, content: string | Buffer) => {
    const file = join(folder, name)
    await writeFile(file, content, { mode: 0o600 })
    if (ids) await chown(file, ids.uid, ids.gid)
    return file
  }
  if (ids) await chown(folder, ids.uid, ids.gid)
  const password = randomBytes(12).toString('hex')
  const passwordFile = await ownFile('password', password)
  const data = join(folder, 'data')
  // The locale C.UTF-8 exists everywhere. Collations other than C are tested by a database of their own.
  const options = ['-D', data, '-U', 'tide', '--auth=scram-sha-256', `--pwfile=${passwordFile}`, '--no-sync']
  await run(initdb, [...options, '--encoding=UTF8', '--locale=C.UTF-8'], { cwd: folder, ...ids })
  const port = await freePort()
  const own = ['listen_addresses=127.0.0.1', `unix_socket_directories=${folder}`, 'max_connections=200', 'fsync=off']
  if (tls) {
    own.push('ssl=on', `ssl_cert_file=${await ownFile('certificate.pem', await readFile(tls.certificate))}`)
    own.push(`ssl_key_file=${await ownFile('key.pem', await readFile(tls.key))}`)
  }
  const flags = [...own, 'max_locks_per_transaction=256', ...settings].flatMap((setting) => ['-c', setting])
  const urlOf = (name: string) => `postgres://tide:${password}@127.0.0.1:${port}/${name}`
  const query = async (statement: string, url = urlOf('postgres')) => {
    const client = new pg.Client({ connectionString: url })
    // The server may end while the connection is idle.
    client.on('error', () => undefined)
    await client.connect()
    try {
      return (await client.query<Record<string, unknown>>(statement)).rows
    } finally {
      await client.end()
    }
  }
  const answers = async () => (await query('select 1')).length === 1
  const program = await startLasting('postgres', ['-D', data, '-p', String(port), ...flags], folder, answers, ids)
  let databases = 0
  const createDatabase = async (options = '') => {
    const name = `tide_${process.pid}_${++databases}`
    await query(`create database ${name} ${options}`)
    return urlOf(name)
  }
  return { ...program, port, urlOf, query, createDatabase }
}
