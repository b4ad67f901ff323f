/** What anybody may ask. */
import { z } from 'zod'
import { endpoint } from '../endpoint.js'

export const publicEndpoints = [
  endpoint({
    method: 'any',
    path: '/api/public/settings',
    tag: 'Public',
    summary: 'The settings that everybody may read',
    access: 'anybody',
    data: z.record(z.string(), z.string()),
    answer: ({ door }) => door.gateway.settings.public(),
  }),

  // Clients ask for these two at their start and need a list.
  endpoint({
    method: 'any',
    path: '/api/public/offline_download_tools',
    tag: 'Public',
    summary: 'The tools for offline downloads that answer',
    access: 'anybody',
    data: z.array(z.string()).readonly(),
    answer: ({ door }) => door.gateway.downloads.toolNames,
  }),
  endpoint({
    method: 'any',
    path: '/api/public/archive_extensions',
    tag: 'Public',
    summary: 'The extensions of archives that can be looked into: none',
    access: 'anybody',
    data: z.array(z.string()),
    answer: () => [],
  }),
]
