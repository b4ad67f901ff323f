/** Administration of storages. What is refused is told with code 500, as clients expect it here. */
import { setTimeout } from 'node:timers/promises'
import { z } from 'zod'
import type { Usage } from '../../../src/driver.js'
import { isGatewayError } from '../../../src/errors.js'
import { StorageNotStarted } from '../../../src/storages.js'
import type { StorageRow } from '../../../src/store/rows.js'
import { rowThere } from '../admin-rows.js'
import type { Door, Routes } from '../context.js'
import { success } from '../envelope.js'
import { WireError } from '../errors.js'
import { integerValue, paging, parseFields, queryId, readFields } from '../fields.js'
import { pageOf } from '../paging.js'
import { configurationOf, driverConfig, storageFields, storageObject } from '../storage-object.js'

const page = z.object(paging)
const storageId = z.object({ id: integerValue })

/** Milliseconds that a list waits for storages to tell how full they are. */
const usagePatience = 2000

export function adminStorageRoutes(routes: Routes, { gateway }: Door): void {
  const { storages, settings, driverTypes, log } = gateway

  routes.get('/api/admin/storage/list', readFields(), async (ctx) => {
    const all = storages.list()
    const rows = pageOf(all, parseFields(ctx, page))
    const hidden = settings.bool('hide_storage_details_in_manage_page')
    const usages = hidden ? [] : await Promise.all(rows.map(usageOf))
    ctx.body = success({ content: rows.map((row, at) => storageObject(row, usages[at])), total: all.length })
  })

  /** A storage that does not know, or is slow to say, shows nothing. */
  async function usageOf({ id }: StorageRow): Promise<Usage | undefined> {
    const enough = AbortSignal.timeout(usagePatience)
    const usage = storages.usage(id, enough).catch(() => undefined)
    return Promise.race([usage, setTimeout(usagePatience, undefined, { ref: false })])
  }

  routes.get('/api/admin/storage/get', (ctx) => {
    ctx.body = success(storageObject(rowThere(storages.get(queryId(ctx)), 'record not found')))
  })

  routes.post(
    '/api/admin/storage/create',
    (ctx, next) => {
      // Clients read the id of every answer, and go on to edit the storage where there is one.
      ctx.state.refusalData = { id: 0 }
      return next()
    },
    readFields(),
    async (ctx) => {
      const fields = parseFields(ctx, storageFields)
      try {
        const configuration = configurationOf(fields, driverConfig(driverTypes, fields.driver))
        const { id } = await refused(() => storages.create(configuration))
        ctx.body = success({ id })
      } catch (error) {
        if (!(error instanceof StorageNotStarted)) throw error
        ctx.state.refusalData = { id: error.id }
        throw new WireError(500, `failed init storage but storage is already created: ${notStarted(error)}`)
      }
    },
  )

  routes.post('/api/admin/storage/update', readFields(), async (ctx) => {
    const { id } = parseFields(ctx, storageId)
    const fields = parseFields(ctx, storageFields)
    const configuration = configurationOf(fields, driverConfig(driverTypes, fields.driver))
    await started(() => storages.update(id, configuration))
    ctx.body = success()
  })

  routes.post('/api/admin/storage/delete', async (ctx) => {
    const id = queryId(ctx)
    await refused(() => storages.delete(id))
    ctx.body = success()
  })

  routes.post('/api/admin/storage/enable', async (ctx) => {
    const id = queryId(ctx)
    await started(() => storages.enable(id))
    ctx.body = success()
  })

  routes.post('/api/admin/storage/disable', async (ctx) => {
    const id = queryId(ctx)
    await refused(() => storages.disable(id))
    ctx.body = success()
  })

  routes.post('/api/admin/storage/load_all', (ctx) => {
    storages.restartAll().catch((error: unknown) => log.error({ err: error }, 'the storages could not be restarted'))
    ctx.body = success()
  })
}

async function refused<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StorageNotStarted) throw error
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
