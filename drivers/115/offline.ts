/** Downloads that 115 makes by itself ("offline downloads"), into folders of the account. */
import type { RemoteDownload, RemoteDownloadQuery } from '../../src/contract/capabilities.js'
import { findInPages, type ListedDownload } from '../lib/api/listed-downloads.js'
import { bytesOf, field, listOf, numberOf, textOf } from '../lib/api/lenient.js'
import { escapeName } from '../lib/api/shown-names.js'
import { errorOf, hasCode, isSuccess, protocolViolation } from './errors.js'
import type { Session } from './session.js'
import type { WebUploads } from './web-uploads.js'

const address = 'https://lixian.115.com/lixian/?ct=lixian'
/** Tasks of one page are fewer; more pages are not read. */
const maxPages = 1000
const states: Readonly<Record<string, RemoteDownload['state']>> = {
  '-1': 'failed',
  '0': 'waiting',
  '1': 'running',
  '2': 'done',
}

export class OfflineDownloads115 {
  constructor(
    private readonly session: Session,
    private readonly uploads: Pick<WebUploads, 'userId'>,
  ) {}

  /** Resolves to the id of the download. Rejects as `RemoteDownloads.addDownload`. */
  async add(folderId: string, url: string, signal?: AbortSignal): Promise<string> {
    const payload = {
      ac: 'add_task_urls',
      wp_path_id: folderId,
      app_ver: this.session.appVersion,
      uid: await this.uploads.userId(signal),
      'url[0]': url,
    }
    const { data } = await this.session.sealedCall('https://lixian.115.com/lixianssp/?ac=add_task_urls', payload, {
      signal,
    })
    const [result = data] = listOf(field(data, 'result'))
    if (!isSuccess(result)) throw errorOf(result)
    const id = textOf(field(result, 'info_hash'))
    if (id === '') throw protocolViolation('sent no id of the download')
    return id
  }

  find(folderId: string, query: RemoteDownloadQuery, signal?: AbortSignal): Promise<RemoteDownload | undefined> {
    return findInPages(this.#pages(signal), folderId, query)
  }

  /** An unknown id is not an error. */
  async remove(id: string, withFiles: boolean, signal?: AbortSignal): Promise<void> {
    const url = new URL(`${address}&ac=task_del`)
    try {
      await this.session.call({ url, form: { 'hash[0]': id, flag: withFiles ? 1 : 0 }, signal })
    } catch (error) {
      if (!hasCode(error, ...unknownTaskCodes)) throw error
    }
  }

  async *#pages(signal: AbortSignal | undefined): AsyncGenerator<readonly ListedDownload[]> {
    for (let page = 1; page <= maxPages; page++) {
      const url = new URL(`${address}&ac=task_lists&page=${page}`)
      const { data } = await this.session.call({ method: 'POST', url, repeatable: true, signal })
      const tasks = listOf(field(data, 'tasks'))
      yield tasks.map(downloadOf)
      const pages = numberOf(field(data, 'page_count')) ?? 1
      if (page >= pages || tasks.length === 0) return
    }
  }
}

/** Codes of the removal of a task that is not listed. */
const unknownTaskCodes = [1001, 990002, 40100000]

function downloadOf(task: unknown): ListedDownload {
  const totalBytes = bytesOf(field(task, 'size'))
  const percent = Math.min(100, Math.max(0, numberOf(field(task, 'percentDone')) ?? 0))
  const state = states[textOf(field(task, 'status'))] ?? 'running'
  const [name, folderId] = [textOf(field(task, 'name')), textOf(field(task, 'wp_path_id'))]
  return {
    id: textOf(field(task, 'info_hash')),
    address: textOf(field(task, 'url')),
    folderId: folderId === '' ? undefined : folderId,
    state,
    totalBytes,
    doneBytes: state === 'done' ? totalBytes : Math.floor((totalBytes * percent) / 100),
    // Before it is done, the name may be that of the address.
    ...(state === 'done' && name !== '' && { name: escapeName(name) }),
  }
}
