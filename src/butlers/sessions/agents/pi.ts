// Written by `butlers connect`; `butlers disconnect` removes it.
// __BUTLER__, home: __HOME__
const HOOK = __HOOK__
export default function () {}
