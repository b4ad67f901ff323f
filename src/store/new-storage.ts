import type { StorageRow } from './rows.js'

/** The row of a storage that has everything but these at its default. */
export function newStorage(given: Pick<StorageRow, 'mountPath' | 'driver' | 'addition'>): Omit<StorageRow, 'id'> {
  return {
    ...given,
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
