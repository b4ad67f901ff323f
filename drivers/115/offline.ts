/** The downloads that 115 makes by itself ("offline downloads"), by its web API and by its official one. */
import type { RemoveDownloadOptions, RemoteDownload } from '../../src/contract/capabilities.js'
import type { CallOptions } from '../../src/contract/call-options.js'
import { GatewayError, isGatewayError } from '../../src/base/errors.js'
import type { ListedDownload } from '../lib/cloud/listed-downloads.js'
import { field, listOf, textOf, bytesOf, numberOf } from '../lib/json-api/lenient.js'
import { escapeName } from '../lib/cloud/shown-names.js'
import type { OfflineApi } from './account-driver.js'
import { errorOf, hasCode, isSuccess, protocolViolation, serverName } from './errors.js'
import type { WebSession } from './web-session.js'
import type { WebUploads } from './web-uploads.js'
import { assertDone, type Open115Api } from './open-api.js'

const address = 'https://lixian.115.com/lixian/?ct=lixian'
/** Codes of the removal of a task that is not listed. */
const unknownTaskCodes = [1001, 990002, 40100000]

/** Offline downloads by the web API. */
export class OfflineDownloads115 implements OfflineApi {
  constructor(
    private readonly session: WebSession,
    private readonly uploads: Pick<WebUploads, 'userId'>,
  ) {}

  async add(folderId: string, url: string, { signal }: CallOptions): Promise<string> {
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

  pages({ signal }: CallOptions): AsyncIterable<readonly ListedDownload[]> {
    return downloadPages(async (page) => {
      const url = new URL(`${address}&ac=task_lists&page=${page}`)
      const { data } = await this.session.call({ method: 'POST', url, repeatable: true, signal })
      return data
    })
  }

  async remove(id: string, { withFiles = false, signal }: RemoveDownloadOptions): Promise<void> {
    const url = new URL(`${address}&ac=task_del`)
    try {
      await this.session.call({ url, form: { 'hash[0]': id, flag: withFiles ? 1 : 0 }, signal })
    } catch (error) {
      if (!hasCode(error, ...unknownTaskCodes)) throw error
    }
  }
}

/** Maximum pages that are read. */
const maxPages = 1000
/** The states by the field `status` of a task. */
const states: Readonly<Record<string, RemoteDownload['state']>> = {
  '-1': 'failed',
  '0': 'waiting',
  '1': 'running',
  '2': 'done',
}

/** All downloads. `pageOf`: the answer that has the tasks of a page; the first one is 1. */
async function* downloadPages(pageOf: (page: number) => Promise<unknown>): AsyncGenerator<readonly ListedDownload[]> {
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

/** Offline downloads by the official API. */
export class Open115Downloads implements OfflineApi {
  constructor(private readonly api: Open115Api) {}

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

  async remove(id: string, { withFiles = false, signal }: RemoveDownloadOptions): Promise<void> {
    const fields = { info_hash: id, del_source_file: withFiles ? 1 : 0 }
    try {
      await this.api.change('/open/offline/del_task', fields, { signal })
    } catch (error) {
      // How the server says that it has no such download is not known.
      if (!isGatewayError(error, 'not_found', 'invalid')) throw error
      for await (const page of this.pages({ signal })) {
        if (page.some((listed) => listed.id === id)) throw error
      }
    }
  }

  pages({ signal }: CallOptions): AsyncIterable<readonly ListedDownload[]> {
    return downloadPages(async (page) => {
      const { data } = await this.api.get('/open/offline/get_task_list', { page }, { signal })
      return data
    })
  }
}
