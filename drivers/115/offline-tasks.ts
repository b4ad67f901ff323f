/** The downloads that 115 makes by itself ("offline downloads"), as both of its APIs list them. */
import type { RemoteDownload } from '../../src/contract/capabilities.js'
import { GatewayError } from '../../src/contract/errors.js'
import type { ListedDownload } from '../lib/api/listed-downloads.js'
import { bytesOf, field, listOf, numberOf, textOf } from '../lib/api/lenient.js'
import { escapeName } from '../lib/api/shown-names.js'
import { serverName } from './errors.js'

/** More pages are not read. */
const maxPages = 1000
/** By the field `status` of a task. */
const states: Readonly<Record<string, RemoteDownload['state']>> = {
  '-1': 'failed',
  '0': 'waiting',
  '1': 'running',
  '2': 'done',
}

/** All downloads. `pageOf`: the answer that has the tasks of a page; the first one is 1. */
export async function* downloadPages(
  pageOf: (page: number) => Promise<unknown>,
): AsyncGenerator<readonly ListedDownload[]> {
  for (let page = 1; page <= maxPages; page++) {
    const answer = await pageOf(page)
    const tasks = listOf(field(answer, 'tasks'))
    yield tasks.map(downloadOf)
    if (tasks.length === 0 || page >= (numberOf(field(answer, 'page_count')) ?? 1)) return
  }
}

function downloadOf(task: unknown): ListedDownload {
  const totalBytes = bytesOf(field(task, 'size'))
  const percent = Math.min(100, Math.max(0, numberOf(field(task, 'percentDone')) ?? 0))
  const state = states[textOf(field(task, 'status'))] ?? 'running'
  const name = textOf(field(task, 'name'))
  return {
    id: textOf(field(task, 'info_hash')),
    address: textOf(field(task, 'url')),
    folderId: textOf(field(task, 'wp_path_id')) || undefined,
    state,
    totalBytes,
    doneBytes: state === 'done' ? totalBytes : Math.floor((totalBytes * percent) / 100),
    // Before it is done, the name may be that of the address.
    ...(state === 'done' && name !== '' && { name: escapeName(name) }),
    ...(state === 'failed' && {
      error: new GatewayError('unavailable', { reason: `the ${serverName} could not download it` }),
    }),
  }
}
