/**
 * The file of a backup: a compressed tar archive of a manifest, the configuration file, and a snapshot of the database.
 */
import { createReadStream, createWriteStream } from 'node:fs'
import { stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'
import * as tar from 'tar-stream'
import { z } from 'zod'
import { GatewayError, isGatewayError } from '../base/errors.js'

const manifestSchema = z.object({
  /** The version of the archive's format. */
  format: z.number().int(),
  /** The version of the program that wrote it. */
  program: z.string().max(100),
  /** The version of the schema of the database. */
  schema: z.number().int(),
  /** The time of the backup in ISO 8601. */
  time: z.iso.datetime(),
})
export type Manifest = z.infer<typeof manifestSchema>

/** The only format so far. */
export const archiveFormat = 1

/** The names of the members, the manifest first, and the most bytes of each. */
const limits = { 'manifest.json': 65_536, 'tidegate.json': 1024 * 1024, 'data.db': Infinity } as const
type Member = keyof typeof limits

/** Bytes of an archive beside its members and their headers: padding, and what the streams have read ahead. */
const slack = 8 * 1024 * 1024

interface Content {
  readonly manifest: Manifest
  /** The content of the configuration file. */
  readonly configuration: Buffer | undefined
  /** The file with the snapshot. */
  readonly database: string
}

/**
 * Writes an archive to a new file of mode 0600, and syncs it. Rejects with `invalid` for a configuration file that is
 * too large, and with the errors of the system.
 */
export async function packArchive(file: string, { manifest, configuration, database }: Content): Promise<void> {
  if (configuration && configuration.length > limits['tidegate.json']) {
    throw new GatewayError('invalid', { reason: 'the configuration file is larger than 1 MiB' })
  }
  const pack = tar.pack()
  const output = createWriteStream(file, { flags: 'wx', mode: 0o600, flush: true })
  const add = async () => {
    const details = { mode: 0o600, mtime: new Date(manifest.time) }
    pack.entry({ ...details, name: 'manifest.json' }, `${JSON.stringify(manifest, null, 2)}\n`)
    if (configuration) pack.entry({ ...details, name: 'tidegate.json' }, configuration)
    const { size } = await stat(database)
    await pipeline(createReadStream(database), pack.entry({ ...details, name: 'data.db', size }))
    pack.finalize()
  }
  const adding = add().catch((error: unknown) => {
    pack.destroy(error as Error)
    throw error
  })
  // The fastest level makes the rows of a database almost as small as the others.
  await Promise.all([pipeline(pack, createGzip({ level: 1 }), output), adding])
}

/**
 * Unpacks an archive that may come from anywhere into an empty folder, as files with the names of the members. Resolves
 * to the manifest. Rejects with `invalid` if it is damaged or no backup, with `unsupported` if a newer program has
 * written it, and with `no_space`.
 */
export async function unpackArchive(file: string, folder: string): Promise<Manifest> {
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  let manifest: Manifest | undefined
  const seen = new Set<string>()
  const extract = tar.extract()
  let [read, expected] = [0, slack]
  const reading = pipeline(
    createReadStream(file),
    createGunzip(),
    // A few bytes can be the compressed form of any number of bytes that belong to no member.
    async function* (chunks: AsyncIterable<Buffer>) {
      for await (const chunk of chunks) {
        read += chunk.length
        if (read > expected) throw notBackup('it has bytes that belong to no file')
        yield chunk
      }
    },
    extract,
  )
  const writing = (async () => {
    for await (const entry of extract) {
      const { name, type, size } = entry.header
      if (type !== 'file' || !isMember(name)) throw notBackup(`it has the member ${JSON.stringify(name).slice(0, 100)}`)
      if (seen.has(name)) throw notBackup(`it has ${name} twice`)
      if (!Number.isSafeInteger(size) || size > limits[name]) throw notBackup(`its ${name} is too large`)
      if (size > free) {
        throw new GatewayError('no_space', { reason: `${folder} has not enough space for the database of the backup` })
      }
      seen.add(name)
      expected += size
      if (name === 'manifest.json') manifest = parseManifest(await buffer(entry))
      else if (!manifest) throw notBackup('it does not begin with its manifest')
      else await pipeline(entry, createWriteStream(join(folder, name), { flags: 'wx', mode: 0o600, flush: true }))
    }
  })().catch((error: unknown) => {
    extract.destroy(error as Error)
    throw error
  })
  const [written, readAll] = await Promise.allSettled([writing, reading])
  for (const outcome of [written, readAll]) if (outcome.status === 'rejected') throw asGatewayError(outcome.reason)
  if (!manifest || !seen.has('data.db')) throw notBackup('it is incomplete')
  return manifest
}

function isMember(name: string): name is Member {
  return Object.hasOwn(limits, name)
}

function parseManifest(bytes: Buffer): Manifest {
  let value: unknown
  try {
    value = JSON.parse(bytes.toString())
  } catch {
    throw notBackup('its manifest is not JSON')
  }
  const parsed = manifestSchema.safeParse(value)
  if (!parsed.success) throw notBackup('its manifest lacks values')
  if (parsed.data.format > archiveFormat) {
    const reason = `it was written by a newer Tidegate (${parsed.data.program}): restore it with that one`
    throw new GatewayError('unsupported', { reason })
  }
  return parsed.data
}

function notBackup(why: string): GatewayError {
  return new GatewayError('invalid', { reason: `it is no backup of Tidegate: ${why}` })
}

/** Errors of the system are unchanged; others are those of damaged archives. */
function asGatewayError(error: unknown): unknown {
  if (isGatewayError(error)) return error
  const { code = '', message } = error as NodeJS.ErrnoException
  if (code.startsWith('E') && !code.startsWith('ERR_')) return error
  return new GatewayError('invalid', { reason: `it is damaged: ${message}`, cause: error })
}
