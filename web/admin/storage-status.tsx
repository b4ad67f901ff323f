/** The status of a storage, as an administrator reads it. */
import { useQuery } from '@tanstack/preact-query'
import { get } from '../api/client.ts'
import { keys } from '../api/keys.ts'
import { textsOf } from '../texts/texts.ts'
import { faultText } from './driver-texts.ts'

const texts = textsOf('admin')

/** Milliseconds for which the answer of a backend is shown before it is asked again. */
const checkedFor = 60_000

interface StorageStatusProps {
  readonly storage: {
    readonly id: number
    /** What the server knows of it: `work`, a fault, or nothing while it starts. */
    readonly status: string
    readonly disabled: boolean
    /** When it was changed last. */
    readonly modified?: string
  }
}

/** What the backend says now, and until then what the server knows: it asks backends once in a while. */
export function StorageStatus({ storage: { id, status, disabled, modified = '' } }: StorageStatusProps) {
  const { states } = texts.storages
  const { error, isSuccess } = useQuery({
    // A storage that was changed, or has started, is asked anew.
    queryKey: keys.storageCheck(id, modified, status),
    queryFn: ({ signal }) => get('/api/admin/storage/check', { query: { id }, signal }),
    enabled: !disabled,
    staleTime: checkedFor,
    refetchOnWindowFocus: false,
  })
  if (disabled) return <span class="muted">{states.disabled}</span>
  if (error) return <span class="error">{faultText(error)}</span>
  const warnings = /^work, but (.*)$/s.exec(status)?.[1]
  if (warnings !== undefined) {
    return (
      <span>
        {states.work} <span lang="en">({warnings})</span>
      </span>
    )
  }
  if (isSuccess || status === 'work') return <span>{states.work}</span>
  if (status === '') return <span class="muted">{states.starting}</span>
  return (
    <span class="error" lang="en">
      {status}
    </span>
  )
}
