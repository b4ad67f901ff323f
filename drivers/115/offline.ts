/** The calls of 115's web API for downloads that 115 makes by itself ("offline downloads"). */
import type { RemoveDownloadOptions } from '../../src/contract/capabilities.js'
import type { CallOptions } from '../../src/contract/call-options.js'
import type { ListedDownload } from '../lib/api/listed-downloads.js'
import { field, listOf, textOf } from '../lib/api/lenient.js'
import type { OfflineApi } from './account-driver.js'
import { errorOf, hasCode, isSuccess, protocolViolation } from './errors.js'
import { downloadPages } from './offline-tasks.js'
import type { Session } from './session.js'
import type { WebUploads } from './web-uploads.js'

const address = 'https://lixian.115.com/lixian/?ct=lixian'
/** Codes of the removal of a task that is not listed. */
const unknownTaskCodes = [1001, 990002, 40100000]

export class OfflineDownloads115 implements OfflineApi {
  constructor(
    private readonly session: Session,
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
