/** The defaults of a new storage. */
import type { StorageRow } from './tables/storages.js'

/** The row of a new storage: `fields`, and defaults for the others. */
export function newStorage(fields: Pick<StorageRow, 'mountPath' | 'driver' | 'addition'>): Omit<StorageRow, 'id'> {
  return {
    ...fields,
    order: 0,
    cacheExpiration: 0,
    customCachePolicies: '',
    status: '',
    remark: '',
    modified: new Date(),
    disabled: false,
    disableIndex: false,
    enableSign: false,
    orderBy: 'name',
    orderDirection: 'asc',
    extractFolder: 'front',
    webProxy: false,
    webdavPolicy: 'native_proxy',
    proxyRange: false,
    downProxyUrl: '',
    disableProxySign: false,
  }
}
