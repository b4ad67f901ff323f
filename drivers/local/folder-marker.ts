/**
 * Shows that all nodes see the same root folder. A folder of one machine may be another one on the next, or an empty
 * folder because its file system is not mounted: files would then be missing, and uploads would be lost to the other
 * nodes. The folder therefore contains a file with a random text, which is in the state of the storage too.
 */
import { randomUUID } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { DriverEnv } from '../../src/contract/driver-env.js'
import { GatewayError } from '../../src/base/errors.js'
import { reservedPrefix } from '../../src/base/path.js'
import { systemCode, translateError } from './errors.js'

const markerName = `${reservedPrefix}marker`

/**
 * Compares the marker in the folder `real` with that of the storage. The first node to start the storage creates it.
 * Rejects with `invalid` if the folder has another one or none. A folder without a marker that cannot be written to is
 * reported, and accepted if no node has seen a marker. `configured`: the option; another folder has another marker.
 */
export async function checkFolderMarker(real: string, configured: string, env: DriverEnv): Promise<void> {
  if (!env.spansMachines) return
  const key = `marker of ${configured}`
  try {
    await env.state.exclusively(`Local ${key}`, () => compare(real, key, env))
  } catch (error) {
    throw translateError(error)
  }
}

async function compare(real: string, key: string, env: DriverEnv): Promise<void> {
  const { state } = env
  const file = join(real, markerName)
  const known = await state.get(key)
  const found = await markerIn(file)
  if (known === undefined) {
    const marker = found ?? (await newMarker(file))
    if (marker !== undefined) await state.set(key, marker)
    else env.report(['its folder is read-only, so it is not checked whether all nodes see the same one'])
  } else if (found !== known) {
    throw new GatewayError('invalid', {
      reason:
        `root folder ${real} is not the one that the other nodes see: that has a file ${markerName} with the text ${known}. ` +
        `Mount that folder here, or create the file if this is the right one`,
    })
  }
}

/** Undefined if there is none, or if its creation was interrupted. */
async function markerIn(file: string): Promise<string | undefined> {
  try {
    const text = (await readFile(file, 'utf8')).trim()
    return text === '' ? undefined : text
  } catch (error) {
    if (systemCode(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Creates the marker, or takes that of another storage with the same folder. Undefined if the folder is read-only. */
async function newMarker(file: string): Promise<string | undefined> {
  const marker = randomUUID()
  try {
    await writeFile(file, marker, { flag: 'wx', flush: true })
  } catch (error) {
    if (['EROFS', 'EACCES', 'EPERM'].includes(systemCode(error) ?? '')) return undefined
    if (systemCode(error) !== 'EEXIST') throw error
    const other = await markerIn(file)
    if (other !== undefined) return other
    await writeFile(file, marker, { flush: true })
  }
  return marker
}
