/** Uploads on every page: what is dropped, and the region with their progress, which is loaded with the first one. */
import { lazy, Suspense } from 'preact/compat'
import { DropTarget } from './drop-target.tsx'
import { hasUploads } from './start-uploads.ts'
import './uploads.css'

const UploadsRegion = lazy(() => import('./uploads-region.tsx'))

/** `owner`: the user who is signed in. */
export function Uploads({ owner }: { readonly owner: string }) {
  return (
    <>
      <DropTarget />
      {hasUploads.value && (
        <Suspense fallback={null}>
          <UploadsRegion owner={owner} />
        </Suspense>
      )}
    </>
  )
}
