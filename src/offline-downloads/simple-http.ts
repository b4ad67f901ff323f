/**
 * Downloads by the gateway itself: streams from a web server into the tree, without the local disk. Also the check of
 * the target folder, which downloads by other tools have too.
 */
import { randomUUID } from 'node:crypto'
import type { Source } from '../contract/call-options.js'
import { isGatewayError, nameTaken, GatewayError } from '../base/errors.js'
import { childOf, nameOf, type Path } from '../base/path.js'
import type { SpeedLimit } from '../storage/bandwidth.js'
import { countedSource } from '../storage/transfer-meter.js'
import type { TaskRun } from '../tasks/task.js'
import { isStored } from '../tasks/upload-tasks.js'
import type { VirtualFs } from '../tree/virtual-fs.js'
import type { AccessOptions } from '../tree/operation-options.js'
import { RemoteFile, type RemoteOptions } from './remote-file.js'
import { simpleHttp } from './tool.js'

interface SimpleDownload extends Omit<RemoteOptions, 'signal'> {
  readonly address: string
  readonly folder: Path
  readonly password?: string | undefined
  /** The speed limit of incoming bytes. */
  readonly speed: SpeedLimit
}

/** Downloads the address into the folder. Rejects with `exists` if the name is taken. */
export async function downloadInto(fs: VirtualFs, download: SimpleDownload, run: TaskRun): Promise<void> {
  const { address, folder, password, speed, ...options } = download
  const { signal } = run
  run.setPhase({ tool: simpleHttp, state: 'connecting' })
  const file = await RemoteFile.open(address, { ...options, signal })
  try {
    run.setTotal(file.size ?? 0)
    run.setPhase({ tool: simpleHttp, state: 'downloading' })
    let bytes = 0
    const advance = (count: number) => {
      bytes += count
      run.advance(count)
    }
    await store(fs, childOf(folder, file.name), speed.source(file.source), password, { ...run, advance })
    run.setTotal(bytes)
  } finally {
    file.close()
  }
}

async function store(fs: VirtualFs, path: Path, remote: Source, password: string | undefined, run: TaskRun) {
  const { resumes, signal } = run
  const source = countedSource(remote, run.advance)
  let reads = 0
  const read: Source['read'] = (range, options) => {
    reads += 1
    return source.read(range, options)
  }
  try {
    await fs.write(path, { ...source, bytes: undefined, read }, { createOnly: true, parents: true, password, signal })
  } catch (error) {
    source.revert()
    if (!isGatewayError(error, 'exists')) throw error
    if (resumes && reads === 0 && (await isStored(fs, path, source, { password, signal }))) return
    throw nameTaken(nameOf(path), error)
  }
}

/** Rejects if the principal cannot create a file in the folder. The folder itself need not exist yet. */
export async function assertCanReceive(fs: VirtualFs, folder: Path, access: AccessOptions): Promise<void> {
  try {
    if ((await fs.stat(folder, access)).kind !== 'folder') throw new GatewayError('not_folder')
  } catch (error) {
    if (!isGatewayError(error, 'not_found')) throw error
  }
  await fs.assertWritable(childOf(folder, randomUUID()), access)
}
