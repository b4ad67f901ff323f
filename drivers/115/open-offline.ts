/** The calls of 115's official API for downloads that 115 makes by itself. */
import type { CallOptions } from '../../src/contract/call-options.js'
import type { RemoveDownloadOptions } from '../../src/contract/capabilities.js'
import { GatewayError, isGatewayError } from '../../src/contract/errors.js'
import type { ListedDownload } from '../lib/api/listed-downloads.js'
import { field, listOf, textOf } from '../lib/api/lenient.js'
import type { OfflineApi } from './account-driver.js'
import { protocolViolation } from './errors.js'
import { downloadPages } from './offline-tasks.js'
import { assertDone, type Open115Api } from './open-api.js'

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
