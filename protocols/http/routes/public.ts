/** Public information that needs no authentication. */
import { z } from 'zod'
import { endpoint } from '../api/endpoint.js'

export const publicEndpoints = [
  endpoint({
    method: 'any',
    path: '/api/public/settings',
    tag: 'Public',
    summary: 'Get the public settings',
    access: 'anybody',
    data: z.record(z.string(), z.string()),
    answer: ({ api }) => api.gateway.settings.public(),
  }),

  // Clients request this endpoint and the next one at startup, and fail unless `data` is a list.
  endpoint({
    method: 'any',
    path: '/api/public/offline_download_tools',
    tag: 'Public',
    summary: 'List the available tools for offline downloads',
    access: 'anybody',
    data: z.array(z.string()).readonly(),
    answer: ({ api }) => api.gateway.downloads.toolNames,
  }),
  endpoint({
    method: 'any',
    path: '/api/public/archive_extensions',
    tag: 'Public',
    summary: 'List the extensions of supported archives: none',
    access: 'anybody',
    data: z.array(z.string()),
    answer: () => [],
  }),
]
