export default function AdminPages(_: { readonly me?: unknown }) {
  return <p>AdminPages</p>
}
