// SPDX-License-Identifier: Apache-2.0
//! The messages and stubs of the contract, made from the repository's proto files by protoc.

fn main() -> std::io::Result<()> {
    let proto = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../proto");
    tonic_prost_build::configure()
        .build_server(false)
        .compile_protos(&[proto.join("distlock/v1/lock_service.proto")], &[proto])
}
