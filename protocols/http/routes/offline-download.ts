/** Offline downloads, and the configuration of the programs that perform them. */
import { z } from 'zod'
import type { Principal } from '../../../src/accounts/principal.js'
import { newPath } from '../../../src/base/path.js'
import { deletePolicies, type DeletePolicy } from '../../../src/offline-downloads/download.js'
import type { DownloadRequest } from '../../../src/offline-downloads/offline-downloads.js'
import type { Task } from '../../../src/tasks/task.js'
import type { AccessOptions } from '../../../src/tree/operation-options.js'
import { signalOf, type HttpApi } from '../api/http-api.js'
import { endpoint, type Refusal } from '../api/endpoint.js'
import { withResponses } from '../api/errors.js'
import { folderPath, requiredText, text, stringList } from '../api/fields.js'
import { treeHeaders } from '../api/access-options.js'
import { noUploads } from './upload.js'
import { changeRefusals, pathRefusals, coreRefusal, taskRefusals } from '../api/refusals.js'
import { taskData, taskObject } from '../compat/task-object.js'
import { accessOptions } from '../api/access-options.js'

/** Maximum number of URLs of one request. */
const maxUrls = 100

const unreachable: Refusal = {
  code: 500,
  text: '…',
  error: 'unavailable',
  when: 'the program is unreachable or denies access; nothing is stored',
}

export const offlineDownloadEndpoints = [
  endpoint({
    method: 'post',
    path: '/api/fs/add_offline_download',
    tag: 'Files',
    summary: 'Download URLs into a folder, in the background',
    description:
      'Creates a task for each URL. Existing files are not replaced. No task is created if the host of a URL is an IP address in a ' +
      'network that is not allowed. A task fails if a name or a redirect leads to such a network.',
    access: 'guest',
    headers: treeHeaders,
    fields: z.object({
      urls: stringList
        .refine((urls) => urls.length <= maxUrls, `must be ${maxUrls} URLs at most`)
        .meta({ example: ['https://example.org/file.iso'] })
        .describe(`At most ${maxUrls}. Empty strings are ignored.`),
      path: folderPath.meta({ example: '/folder' }).describe('The target folder. Created if it does not exist.'),
      tool: requiredText.meta({ example: 'SimpleHttp' }).describe('One of `/api/public/offline_download_tools`.'),
      // Unknown values must not delete files.
      delete_policy: text
        .transform((policy): DeletePolicy => deletePolicies.find((known) => known === policy) ?? 'delete_never')
        .describe(`When downloaded files are deleted from the folder of the program: ${deletePolicies.join(', ')}.`),
    }),
    data: z.object({ tasks: z.array(taskData) }),
    refusals: [
      ...pathRefusals,
      ...changeRefusals,
      ...taskRefusals,
      { ...coreRefusal('invalid', { detail: 'tool_unknown' }), code: 500 },
      coreRefusal('unavailable', { detail: 'tool_failed', reason: '…' }, 'the program is unreachable'),
      {
        code: 500,
        text: '…',
        error: 'unavailable',
        when: 'the storage does not answer, or the tool does not support the scheme of a URL',
      },
      { code: 400, text: `urls: must be ${maxUrls} URLs at most`, error: 'invalid' },
      { code: 400, text: '… leads into a network that is not allowed', error: 'invalid' },
      noUploads,
    ],
    async answer({ context, api, fields, headers, principal }) {
      const folder = newPath(fields.path)
      const { tool, delete_policy: policy } = fields
      const addresses = fields.urls.map((url) => url.trim()).filter((url) => url !== '')
      const tasks = await addDownloads(
        api,
        principal,
        { addresses, folder, tool, policy },
        accessOptions(context, headers.password),
      )
      return { tasks: tasks.map(taskObject) }
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/set_aria2',
    tag: 'Settings',
    summary: 'Configure aria2 for offline downloads',
    description: 'The settings are stored only if aria2 responds.',
    access: 'admin',
    event: 'admin.setting',
    fields: z.object({
      uri: requiredText.meta({ example: 'http://localhost:6800/jsonrpc' }),
      secret: text.meta({ example: '' }).describe('The `rpc-secret` of its configuration.'),
    }),
    data: z.string().describe('The version of aria2, as `aria2 version: …`.'),
    refusals: [unreachable],
    async answer({ context, api, fields: { uri, secret } }) {
      return `aria2 version: ${await api.gateway.downloads.setAria2(uri, secret, signalOf(context.res))}`
    },
  }),

  endpoint({
    method: 'post',
    path: '/api/admin/setting/set_qbit',
    tag: 'Settings',
    summary: 'Configure qBittorrent for offline downloads',
    description: 'The settings are stored only if qBittorrent responds.',
    access: 'admin',
    event: 'admin.setting',
    fields: z.object({
      url: requiredText
        .meta({ example: 'http://admin:adminadmin@localhost:8080/' })
        .describe('The URL, with user name and password.'),
      seedtime: text
        .meta({ example: '0' })
        .describe('Minutes for which a complete torrent is seeded. Negative: it is never removed.'),
    }),
    data: z.literal('ok'),
    refusals: [unreachable, { code: 400, text: 'setting […] must be a number', error: 'invalid' }],
    async answer({ context, api, fields: { url, seedtime } }) {
      await api.gateway.downloads.setQBittorrent(url, seedtime, signalOf(context.res))
      return 'ok' as const
    },
  }),

  storageFolderEndpoint('/api/admin/setting/set_115', '115 Cloud'),
  storageFolderEndpoint('/api/admin/setting/set_115_open', '115 Open'),
]

function storageFolderEndpoint(path: `/${string}`, tool: string) {
  return endpoint({
    method: 'post',
    path,
    tag: 'Settings',
    summary: `Configure ${tool} for offline downloads`,
    description: `The tool downloads into this folder what is meant for storages that are not ${tool}.`,
    access: 'admin',
    event: 'admin.setting',
    fields: z.object({
      temp_dir: text.meta({ example: '/115/downloads' }).describe(`A folder in a ${tool} storage. Empty: none.`),
    }),
    data: z.literal('ok'),
    refusals: [
      { code: 500, text: '…', error: 'unavailable', when: `the folder is not in a ${tool} storage; nothing is stored` },
    ],
    async answer({ api, fields: { temp_dir: folder } }) {
      await api.gateway.downloads.setStorageFolder(tool, folder)
      return 'ok' as const
    },
  })
}

async function addDownloads(
  api: HttpApi,
  principal: Principal,
  request: DownloadRequest,
  options: AccessOptions,
): Promise<readonly Task[]> {
  return withResponses({ unsupported: noUploads }, () => api.gateway.downloads.add(principal, request, options))
}
