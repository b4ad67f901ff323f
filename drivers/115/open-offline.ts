/** Downloads that 115 makes by itself, by its official API. */
import type { CallOptions } from '../../src/contract/call-options.js'
import type { RemoteDownload, RemoteDownloadQuery, RemoveDownloadOptions } from '../../src/contract/capabilities.js'
import { GatewayError, isGatewayError } from '../../src/contract/errors.js'
import { findInPages, type ListedDownload } from '../lib/api/listed-downloads.js'
import { bytesOf, field, listOf, numberOf, textOf } from '../lib/api/lenient.js'
import { assertDone, type Open115Api } from './open-api.js'
import { protocolViolation, serverName } from './errors.js'

/** Pages that are read at most. */
const maxPages = 1000
/** By the field `status` of a download. */
const states: Readonly<Record<string, RemoteDownload['state']>> = {
  '-1': 'failed',
  0: 'waiting',
  1: 'running',
  2: 'done',
}

export class Open115Downloads {
  constructor(private readonly api: Open115Api) {}

  /** See `RemoteDownloads.addDownload`. `folder`: its id. */
  async add(folder: string, address: string, options: CallOptions): Promise<string> {
    // Several addresses are separated by line breaks.
    if (/[\r\n]/.test(address)) throw new GatewayError('invalid', { reason: 'the address has line breaks' })
    const { data } = await this.api.change(
      '/open/offline/add_task_urls',
      { urls: address, wp_path_id: folder },
      options,
    )
    const added = listOf(data)[0]
    assertDone(added)
    const id = textOf(field(added, 'info_hash'))
    if (id === '') throw protocolViolation('sent no id of the download')
    return id
  }

  find(folder: string, query: RemoteDownloadQuery, options: CallOptions): Promise<RemoteDownload | undefined> {
    return findInPages(this.#pages(options), folder, query)
  }

  async remove(id: string, { withFiles = false, signal }: RemoveDownloadOptions): Promise<void> {
    const fields = { info_hash: id, del_source_file: withFiles ? 1 : 0 }
    try {
      await this.api.change('/open/offline/del_task', fields, { signal })
    } catch (error) {
      // How the server says that it has no such download is not known.
      if (!isGatewayError(error, 'not_found', 'invalid')) throw error
      for await (const page of this.#pages({ signal })) {
        if (page.some((listed) => listed.id === id)) throw error
      }
    }
  }

  async *#pages({ signal }: CallOptions): AsyncGenerator<readonly ListedDownload[]> {
    for (let page = 1; page <= maxPages; page++) {
      const { data } = await this.api.get('/open/offline/get_task_list', { page }, { signal })
      const tasks = listOf(field(data, 'tasks'))
      yield tasks.map(downloadOf)
      if (tasks.length === 0 || page >= (numberOf(field(data, 'page_count')) ?? 1)) return
    }
  }
}

function downloadOf(task: unknown): ListedDownload {
  const state = states[textOf(field(task, 'status'))] ?? 'running'
  const totalBytes = bytesOf(field(task, 'size'))
  const percent = Math.min(100, Math.max(0, numberOf(field(task, 'percentDone')) ?? 0))
  const name = textOf(field(task, 'name'))
  return {
    id: textOf(field(task, 'info_hash')),
    address: textOf(field(task, 'url')),
    folderId: textOf(field(task, 'wp_path_id')) || undefined,
    state,
    totalBytes,
    doneBytes: state === 'done' ? totalBytes : Math.floor((totalBytes * percent) / 100),
    ...(name !== '' && { name }),
    ...(state === 'failed' && {
      error: new GatewayError('unavailable', { reason: `the ${serverName} could not download it` }),
    }),
  }
}
