/** Administration of storages. What is refused is told with code 500, as clients expect it here. */
import { z } from 'zod'
import { isGatewayError, toGatewayError } from '../../../src/errors.js'
import { RelativePathError } from '../../../src/path.js'
import { StorageNotStarted } from '../../../src/storages.js'
import { rowThere } from '../admin-rows.js'
import { signalOf } from '../context.js'
import { endpoint, type Refusal } from '../endpoint.js'
import { WireError } from '../errors.js'
import { integerValue, paging, rowId } from '../fields.js'
import { pageOf } from '../paging.js'
import { pageData } from '../schemas.js'
import { configurationOf, driverConfig, storageData, storageFields, storageObject } from '../storage-object.js'

const unknown: Refusal = { code: 500, text: 'failed get storage: record not found' }
const idle: Refusal = {
  code: 500,
  text: 'failed init storage: …',
  when: 'it is stored, but does not start; the text says why',
}
const configurationRefusals: readonly Refusal[] = [
  { code: 403, text: 'using relative path is not allowed', when: '`mount_path` holds `..`' },
  { code: 500, text: 'a storage with this mount_path exists already' },
  { code: 500, text: 'failed get driver new: no driver named: …' },
  { code: 500, text: 'webdav_policy must be one of …', when: 'the driver does not offer that one' },
  { code: 500, text: 'the cache expiration is a number of minutes' },
  { code: 500, text: '…', when: '`mount_path` is no path that can be had; the text says why' },
]

export const adminStorageEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/storage/list',
    tag: 'Storages',
    summary: 'The storages, those that do not run too',
    access: 'admin',
    fields: z.object(paging),
    data: pageData(storageData),
    async answer({ door, fields }) {
      const { settings, storages } = door.gateway
      const all = storages.list()
      const rows = pageOf(all, fields)
      const hidden = settings.bool('hide_storage_details_in_manage_page')
      const usages = hidden ? [] : await Promise.all(rows.map(({ id }) => storages.usage(id)))
      return { content: rows.map((row, at) => storageObject(row, usages[at])), total: all.length }
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/storage/get',
    tag: 'Storages',
    summary: 'One storage',
    access: 'admin',
    query: rowId,
    data: storageData,
    refusals: [{ code: 500, text: 'record not found' }],
    answer: ({ door, query }) => storageObject(rowThere(door.gateway.storages.get(query.id), 'record not found')),
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/storage/check',
    tag: 'Storages',
    summary: 'Whether the backend of a storage answers now',
    access: 'admin',
    query: rowId,
    refusals: [
      unknown,
      { code: 500, text: '…', when: 'the storage does not run, or its backend does not answer; the text says why' },
    ],
    async answer({ context, door, query }) {
      try {
        await door.gateway.storages.check(query.id, { signal: signalOf(context.res) })
      } catch (error) {
        // The table of errors hides from users what an admin has to know.
        throw new WireError(500, toGatewayError(error).reason)
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/create',
    tag: 'Storages',
    summary: 'Mount a storage',
    access: 'admin',
    fields: storageFields,
    data: z.object({ id: z.int() }),
    // Clients read the id of every answer, and go on to edit the storage where there is one.
    refusalData: { id: 0 },
    refusals: [
      ...configurationRefusals,
      {
        code: 500,
        text: 'failed init storage but storage is already created: …',
        when: 'it is stored, but does not start; `id` of the data is that of the storage, which `/api/admin/storage/update` puts right',
      },
    ],
    async answer({ context, door, fields }) {
      const { driverTypes, storages } = door.gateway
      try {
        const configuration = configurationOf(fields, driverConfig(driverTypes, fields.driver))
        const { id } = await refused(() => storages.create(configuration))
        return { id }
      } catch (error) {
        if (!(error instanceof StorageNotStarted)) throw error
        context.state.refusalData = { id: error.id }
        throw new WireError(500, `failed init storage but storage is already created: ${notStarted(error)}`)
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/update',
    tag: 'Storages',
    summary: 'Replace the configuration of a storage as a whole, and start it again',
    access: 'admin',
    fields: z.object({ id: integerValue.meta({ example: 1 }), ...storageFields.shape }),
    refusals: [...configurationRefusals, unknown, idle, { code: 500, text: 'driver cannot be changed' }],
    async answer({ door, fields }) {
      const { driverTypes, storages } = door.gateway
      const configuration = configurationOf(fields, driverConfig(driverTypes, fields.driver))
      await started(() => storages.update(fields.id, configuration))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/delete',
    tag: 'Storages',
    summary: 'Unmount a storage and forget it; its files stay where they are',
    access: 'admin',
    query: rowId,
    refusals: [unknown],
    async answer({ door, query }) {
      await refused(() => door.gateway.storages.delete(query.id))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/enable',
    tag: 'Storages',
    summary: 'Start a storage that is disabled',
    access: 'admin',
    query: rowId,
    refusals: [unknown, idle, { code: 500, text: 'this storage have enabled' }],
    async answer({ door, query }) {
      await started(() => door.gateway.storages.enable(query.id))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/disable',
    tag: 'Storages',
    summary: 'Stop a storage; its place in the tree is free at once',
    access: 'admin',
    query: rowId,
    refusals: [unknown, { code: 500, text: 'this storage have disabled' }],
    async answer({ door, query }) {
      await refused(() => door.gateway.storages.disable(query.id))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/load_all',
    tag: 'Storages',
    summary: 'Start all storages again, in the background',
    access: 'admin',
    answer({ door: { gateway } }) {
      gateway.storages.restartAll().catch((error: unknown) => {
        gateway.log.error({ err: error }, 'the storages could not be restarted')
      })
    },
  }),
]

async function refused<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StorageNotStarted || error instanceof RelativePathError) throw error
    if (isGatewayError(error, 'invalid', 'exists', 'not_found')) throw new WireError(500, error.reason)
    throw error
  }
}

async function started(work: () => Promise<unknown>): Promise<void> {
  try {
    await refused(work)
  } catch (error) {
    throw error instanceof StorageNotStarted ? new WireError(500, notStarted(error)) : error
  }
}

function notStarted(error: StorageNotStarted): string {
  return `failed init storage: ${error.reason}`
}
