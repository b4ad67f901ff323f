/** Imports into the running daemon, from files that a client sends. */
import { createWriteStream } from 'node:fs'
import { access, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Transform, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { bootstrapAccounts } from '../../accounts/bootstrap.js'
import { GatewayError, isGatewayError } from '../../base/errors.js'
import type { Log } from '../../base/log.js'
import type { Store } from '../../database/tables.js'
import { inScratchFolder } from '../scratch-folder.js'
import type { AlistProgram } from './alist.js'
import type { SourceDefaults } from './quantum.js'
import {
  assertNewInstallation,
  importReport,
  prepareImport,
  storeImport,
  type ImportOptions,
  type ImportSource,
} from './importer.js'

/** The largest size of all files of an import, in bytes. */
const maxImportSize = 1024 ** 3

interface UploadedImport {
  readonly program: AlistProgram | 'filebrowser' | 'quantum'
  /** Where the files of File Browser are, if not in the folder of its configuration. */
  readonly root: string | undefined
  /** What is said of the sources of Quantum. */
  readonly defaults: SourceDefaults
  /** Whether nothing is stored. */
  readonly dryRun: boolean
  readonly signal: AbortSignal
}

/**
 * Stores one of the files. Rejects with `invalid` if it is none of those that the import needs, and with `too_large`.
 */
type SaveFile = (name: string, content: Readable) => Promise<void>

interface Dependencies extends Omit<ImportOptions, 'signal'> {
  readonly store: Store
  /** The data folder. */
  readonly data: string
  readonly log: Pick<Log, 'info'>
}

export class UploadedImports {
  #isRunning = false

  /** `maxSize`: of all files together, in bytes. */
  constructor(
    private readonly dependencies: Dependencies,
    private readonly maxSize = maxImportSize,
  ) {}

  /**
   * Imports the files that `receive` passes on, and resolves to the report. The accounts are then those of the other
   * program. The files are in a folder of their own until it ends. Rejects with `busy` while another import runs, with
   * `exists` unless the installation has only what a first run makes, with the errors of `receive`, and as
   * `prepareImport`.
   */
  async run(
    options: UploadedImport,
    receive: (save: SaveFile) => Promise<void>,
  ): Promise<ReturnType<typeof importReport>> {
    if (this.#isRunning) throw new GatewayError('busy', { reason: 'an import is running: wait until it has ended' })
    this.#isRunning = true
    try {
      await assertNewInstallation(this.dependencies)
      return await inScratchFolder(this.dependencies.data, (folder) => this.#runIn(folder, options, receive))
    } finally {
      this.#isRunning = false
    }
  }

  async #runIn(folder: string, options: UploadedImport, receive: (save: SaveFile) => Promise<void>) {
    const { store, log } = this.dependencies
    const { program, dryRun, signal } = options
    try {
      await receive(saveIn(folder, program, this.maxSize))
      const prepared = await prepareImport(await sourceIn(folder, options), { ...this.dependencies, signal })
      if (dryRun) return importReport(prepared, true)
      await storeImport(prepared, this.dependencies)
      // As at a start: the other program may have no guest.
      await bootstrapAccounts(store, {})
      log.info({ program, users: prepared.installation.users.length }, 'the data of another program was imported')
      // As after a command: everything that holds rows in memory reads them again.
      await store.notifyAll()
      const keys = prepared.keys.map(({ of }) => `The ${of.kind} is used from the next start of this server.`)
      return importReport({ ...prepared, notes: [...prepared.notes, ...keys] }, false)
    } catch (error) {
      // The client knows the files by their names.
      throw isGatewayError(error, 'invalid')
        ? new GatewayError('invalid', { reason: error.reason.replaceAll(`${folder}/`, ''), cause: error })
        : error
    }
  }
}

/** The database may have any name; for AList and OpenList, the configuration states it. */
const names: Readonly<Record<UploadedImport['program'], RegExp>> = {
  alist: /^(?:config\.json|ssh_host_rsa_key|[\w-]{1,64}\.db(?:-wal)?)$/,
  openlist: /^(?:config\.json|ssh_host_rsa_key|[\w-]{1,64}\.db(?:-wal)?)$/,
  filebrowser: /^(?:users|config|shares)\.json$/,
  quantum: /^[\w-]{1,64}\.(?:db|sqlite)(?:-wal)?$/,
}

/** The name of the database of Quantum, which nothing else states. */
const quantumFile = 'quantum.db'

/** The uploaded files as an importer reads them. Their names are those in the folders of these programs. */
async function sourceIn(folder: string, { program, root, defaults }: UploadedImport): Promise<ImportSource> {
  if (program === 'quantum') {
    return { program, file: join(folder, quantumFile), defaults, scratch: folder }
  }
  if (program !== 'filebrowser') return { program, folder, scratch: folder }
  const shares = join(folder, 'shares.json')
  const hasShares = await access(shares).then(
    () => true,
    () => false,
  )
  return {
    ...{ program, users: join(folder, 'users.json'), config: join(folder, 'config.json'), root },
    ...(hasShares && { shares }),
  }
}

function saveIn(folder: string, program: UploadedImport['program'], maxSize: number): SaveFile {
  let room = maxSize
  return async (name, content) => {
    if (!names[program].test(name)) {
      throw new GatewayError('invalid', { reason: `the import does not use the file ${name.slice(0, 100)}` })
    }
    const within = new Transform({
      transform(chunk: Buffer, _encoding, callback) {
        room -= chunk.length
        const reason = `the files have more than ${maxSize} bytes: run "tidegate import" on the server`
        callback(room < 0 ? new GatewayError('too_large', { reason }) : null, chunk)
      },
    })
    const isKey = name.startsWith('ssh_')
    if (isKey) await mkdir(join(folder, 'ssh'), { recursive: true, mode: 0o700 })
    const stored = program === 'quantum' ? quantumFile + (name.endsWith('-wal') ? '-wal' : '') : name
    const file = join(folder, isKey ? 'ssh' : '', stored)
    try {
      await pipeline(content, within, createWriteStream(file, { flags: 'wx', mode: 0o600 }))
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code === 'EEXIST')
        throw new GatewayError('invalid', { reason: `the file ${name} was sent twice`, cause: error })
      if (code === 'ENOSPC')
        throw new GatewayError('no_space', { reason: 'there is no room for the files', cause: error })
      throw error
    }
  }
}
