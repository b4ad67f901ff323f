/** Downloads by the gateway itself: from a web server right into the tree, with nothing on the local disk. */
import type { SpeedLimit } from '../bandwidth.js'
import { countedSource } from '../counted-source.js'
import type { Source } from '../driver.js'
import { isGatewayError } from '../errors.js'
import { childOf, type Path } from '../path.js'
import { isSameContent } from '../same-content.js'
import type { TaskRun } from '../tasks/task.js'
import type { VirtualFs } from '../virtual-fs.js'
import { taken } from './destination.js'
import { RemoteFile, type RemoteOptions } from './remote-file.js'
import { simpleHttp } from './tool.js'

export interface SimpleDownload extends Omit<RemoteOptions, 'signal'> {
  readonly address: string
  readonly folder: Path
  readonly password?: string | undefined
  /** Of what comes from servers. */
  readonly speed: SpeedLimit
}

/** Fetches what the address leads to into the folder. `exists` where something has its name already. */
export async function fetchInto(fs: VirtualFs, download: SimpleDownload, run: TaskRun): Promise<void> {
  const { address, folder, password, speed, ...options } = download
  const { signal } = run
  run.status(`[${simpleHttp}]: connecting`)
  const file = await RemoteFile.open(address, { ...options, signal })
  try {
    run.total(file.size ?? 0)
    run.status(`[${simpleHttp}]: downloading`)
    let bytes = 0
    const advance = (more: number) => {
      bytes += more
      run.advance(more)
    }
    await store(fs, childOf(folder, file.name), speed.source(file.source), password, { ...run, advance })
    run.total(bytes)
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
    await fs.write(path, { ...source, read }, { createOnly: true, parents: true, password, signal })
  } catch (error) {
    source.takeBack()
    if (!isGatewayError(error, 'exists')) throw error
    // An earlier run may have stored it, and been cut off before it could say so.
    if (resumes && reads === 0 && (await isStored(fs, path, source, password, signal))) return
    throw taken(path, error)
  }
}

async function isStored(
  fs: VirtualFs,
  path: Path,
  source: Source,
  password: string | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  const { kind, size } = await fs.stat(path, { password, signal })
  if (kind !== 'file') return false
  const read = () => fs.read(path, undefined, { password, signal })
  return isSameContent({ ...source, size: source.size ?? size }, { size, rereadable: true, read }, signal)
}
