/** Administration of storages. Most errors have code 500, because clients expect it. */
import { z } from 'zod'
import { toGatewayError } from '../../../src/base/errors.js'
import { openQrStates } from '../../../src/contract/driver-type.js'
import { StorageNotStarted } from '../../../src/mounts/storage-admin.js'
import { requireRow } from '../compat/admin-rows.js'
import { signalOf } from '../api/http-api.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { withResponses, worded } from '../api/errors.js'
import { escapeMarkup } from '../api/escape.js'
import { integerValue, optionalField, paging, requiredText, rowId } from '../api/fields.js'
import { pageOf } from '../api/paging.js'
import { coreRefusal, relativePath, storageRefusals, withNames } from '../api/refusals.js'
import { pageData } from '../api/schemas.js'
import {
  configurationOf,
  driverFacts,
  storageData,
  storageFields,
  storageObject,
  wrongPolicy,
} from '../compat/storage-object.js'

const unknown: Refusal = { code: 500, text: 'failed get storage: record not found', error: 'record_missing' }
const unknownRow: Refusal = { code: 500, text: 'record not found', error: 'record_missing' }
const startFailed = ({ reason }: Pick<StorageNotStarted, 'reason'>): Refusal => ({
  code: 500,
  text: `failed init storage: ${escapeMarkup(reason)}`,
  error: 'storage_failed',
  when: 'the storage is saved but did not start; the message is the reason',
})
const anyStartFailed = startFailed({ reason: '…' })
const createdOnly = (failure: string): Refusal => ({
  code: 500,
  text: `failed init storage but storage is already created: ${failure}`,
  error: 'storage_created',
})
/** What a backend may answer to a check, beside `storageRefusals`. */
const checkFailures = withNames(['not_found', 'denied', 'unsupported', 'throttled', 'busy', 'timeout'], {
  code: 500,
  text: '…',
  when: 'the backend answers so; the message is the reason',
})
const storageId = z.object({ id: z.int() }).meta({ id: 'StorageId' })
const configurationRefusals: readonly Refusal[] = [
  { ...relativePath, when: '`mount_path` contains `..`' },
  { code: 500, text: 'a storage with this mount_path exists already', error: 'exists' },
  { ...coreRefusal('invalid', { detail: 'driver_unknown' }), code: 500 },
  {
    code: 500,
    text: wrongPolicy('…'),
    error: 'invalid',
    when: 'the driver does not offer the given policy',
  },
  { code: 500, text: 'the cache expiration is a number of minutes', error: 'invalid' },
  { code: 500, text: '…', error: 'costly_pattern', when: 'the patterns of the cache policies exceed a limit' },
  {
    code: 500,
    text: '…',
    error: 'invalid',
    when: '`mount_path` is not allowed, or, of a new storage, a field of the driver is missing or invalid; the message is the reason',
  },
]

const trialRefusals = configurationRefusals
  .filter(({ error }) => error !== 'exists')
  .map((refusal): Refusal => ({ ...refusal, code: 500 }))

/** Maximum characters of the ticket of a QR code. */
const ticketLimit = 2000
const qrRefusals: readonly Refusal[] = [
  { ...coreRefusal('invalid', { detail: 'driver_unknown' }), code: 500 },
  { code: 500, text: '…', error: 'invalid', when: 'the ticket or `addition` cannot be read' },
  ...storageRefusals,
  ...checkFailures,
]

export const adminStorageEndpoints = [
  endpoint({
    method: 'get',
    path: '/api/admin/storage/list',
    tag: 'Storages',
    summary: 'List the storages, including those that are not running',
    access: 'admin',
    fields: z.object(paging),
    data: pageData(storageData),
    async answer({ api, fields }) {
      const { settings, storages } = api.gateway
      const all = storages.list()
      const rows = pageOf(all, fields)
      const hidden = settings.bool('hide_storage_details_in_manage_page')
      const usages = hidden ? [] : await Promise.all(rows.map(({ id }) => storages.usage(id)))
      return { content: rows.map((row, index) => storageObject(row, usages[index])), total: all.length }
    },
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/storage/get',
    tag: 'Storages',
    summary: 'Get a storage',
    access: 'admin',
    query: rowId,
    data: storageData,
    refusals: [unknownRow],
    answer: ({ api, query }) => storageObject(requireRow(api.gateway.storages.get(query.id), unknownRow)),
  }),

  endpoint({
    method: 'get',
    path: '/api/admin/storage/check',
    tag: 'Storages',
    summary: 'Check whether the backend of a storage is reachable',
    access: 'admin',
    query: rowId,
    refusals: [unknown, ...storageRefusals, ...checkFailures],
    async answer({ context, api, query }) {
      await withReasons(() => api.gateway.storages.check(query.id, { signal: signalOf(context.res) }))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/try',
    tag: 'Storages',
    summary: 'Try the configuration of a storage, and store nothing',
    description:
      'Opens the backend as the storage would, asks for its root folder, and closes it, within half a minute. A value ' +
      'that the backend accepts once (`single_use` of its field) is refused.',
    access: 'admin',
    fields: z.object({
      id: optionalField(integerValue).describe('The storage that is to get this configuration. Absent: a new one.'),
      ...storageFields.shape,
    }),
    refusals: [...trialRefusals, ...storageRefusals, ...checkFailures],
    async answer({ context, api, fields }) {
      const { driverTypes, trials } = api.gateway
      await withReasons(async () => {
        const configuration = configurationOf(fields, driverFacts(driverTypes, fields.driver))
        await trials.run(configuration, { id: fields.id, signal: signalOf(context.res) })
      })
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/qr_code',
    tag: 'Storages',
    summary: 'Request a QR code of a backend, by which an app signs in for a storage',
    description: 'Of the drivers that have `qr_sign_in`. Nothing is stored: the caller keeps the ticket.',
    access: 'admin',
    fields: z.object({
      driver: requiredText.meta({ example: '115 Cloud' }),
      addition: optionalField(z.string()).describe('The options of the driver so far, as JSON.'),
    }),
    data: z
      .object({
        text: z.string().describe('What the QR code says.'),
        ticket: z.string().describe('For `/api/admin/storage/qr_answer`.'),
      })
      .meta({ id: 'StorageQrCode' }),
    refusals: qrRefusals,
    async answer({ context, api, fields }) {
      const { driver, addition = '' } = fields
      const { storageSignIns } = api.gateway
      return withReasons(() => storageSignIns.begin(driver, addition, { signal: signalOf(context.res) }))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/qr_answer',
    tag: 'Storages',
    summary: 'Ask a backend what became of a QR code',
    description: 'The answer may take some seconds. It is to be asked again while the code is `waiting` or `scanned`.',
    access: 'admin',
    fields: z.object({
      driver: requiredText.meta({ example: '115 Cloud' }),
      ticket: requiredText.max(ticketLimit, `must have at most ${ticketLimit} characters`),
    }),
    data: z
      .object({
        state: z.enum([...openQrStates, 'confirmed']).describe('`refused`: by the user of the app.'),
        values: z
          .record(z.string(), z.string())
          .optional()
          .describe('When it is `confirmed`: the fields of the driver that it sets, such as the cookie.'),
      })
      .meta({ id: 'StorageQrAnswer' }),
    refusals: qrRefusals,
    async answer({ context, api, fields }) {
      const { driver, ticket } = fields
      return withReasons(() => api.gateway.storageSignIns.ask(driver, ticket, { signal: signalOf(context.res) }))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/create',
    tag: 'Storages',
    summary: 'Mount a storage',
    access: 'admin',
    event: 'admin.storage',
    fields: storageFields,
    data: storageId,
    // Clients read the id of every response, including errors. If it is not 0, they open the storage for editing.
    refusalData: { schema: storageId, empty: { id: 0 } },
    refusals: [
      ...configurationRefusals,
      {
        ...createdOnly('…'),
        when: 'the storage is saved but did not start; `data.id` is its id for `/api/admin/storage/update`',
      },
    ],
    async answer({ context, api, fields }) {
      const { driverTypes, storages } = api.gateway
      try {
        const { id } = await withConfigurationErrors(() =>
          storages.create(configurationOf(fields, driverFacts(driverTypes, fields.driver))),
        )
        return { id }
      } catch (error) {
        if (!(error instanceof StorageNotStarted)) throw error
        context.state.refusalData = { id: error.id }
        throw worded(error, createdOnly(startFailed(error).text))
      }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/update',
    tag: 'Storages',
    summary: 'Replace the configuration of a storage and restart it',
    access: 'admin',
    event: 'admin.storage',
    fields: z.object({ id: integerValue.meta({ example: 1 }), ...storageFields.shape }),
    refusals: [
      ...configurationRefusals,
      unknown,
      anyStartFailed,
      { ...coreRefusal('invalid', { detail: 'driver_changed' }), code: 500 },
    ],
    async answer({ api, fields }) {
      const { driverTypes, storages } = api.gateway
      await withStartErrors(() =>
        storages.update(fields.id, configurationOf(fields, driverFacts(driverTypes, fields.driver))),
      )
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/delete',
    tag: 'Storages',
    summary: 'Unmount and delete a storage; its files are not deleted',
    access: 'admin',
    event: 'admin.storage',
    query: rowId,
    refusals: [unknown],
    async answer({ api, query }) {
      await withConfigurationErrors(() => api.gateway.storages.delete(query.id))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/enable',
    tag: 'Storages',
    summary: 'Enable and start a storage',
    access: 'admin',
    event: 'admin.storage',
    query: rowId,
    refusals: [unknown, anyStartFailed, { ...coreRefusal('invalid', { detail: 'storage_enabled' }), code: 500 }],
    async answer({ api, query }) {
      await withStartErrors(() => api.gateway.storages.enable(query.id))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/disable',
    tag: 'Storages',
    summary: 'Disable and unmount a storage',
    access: 'admin',
    event: 'admin.storage',
    query: rowId,
    refusals: [unknown, { ...coreRefusal('invalid', { detail: 'storage_disabled' }), code: 500 }],
    async answer({ api, query }) {
      await withConfigurationErrors(() => api.gateway.storages.disable(query.id))
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/storage/load_all',
    tag: 'Storages',
    summary: 'Restart all storages, in the background',
    access: 'admin',
    event: 'admin.storage',
    answer({ api: { gateway } }) {
      gateway.storages.restartAll().catch((error: unknown) => {
        gateway.log.error({ err: error }, 'restart of storages failed')
      })
    },
  }),
]

/** Runs `work`. Admins get the reason of its error, which the error table hides for some codes. */
async function withReasons<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw worded(toGatewayError(error), { code: 500 })
  }
}

/** Runs `work` and maps its errors about the configuration to code 500. */
function withConfigurationErrors<T>(work: () => Promise<T>): Promise<T> {
  const responses = { relative_path: { code: 403 }, not_found: unknown, invalid: { code: 500 }, exists: { code: 500 } }
  return withResponses(responses, work)
}

/** Like `withConfigurationErrors`, and maps `StorageNotStarted` to code 500. */
async function withStartErrors(work: () => Promise<unknown>): Promise<void> {
  try {
    await withConfigurationErrors(work)
  } catch (error) {
    if (!(error instanceof StorageNotStarted)) throw error
    throw worded(error, startFailed(error))
  }
}
