// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.30;

interface Token {
    function transferFrom(address from, address to, uint256 value) external returns (bool);
}

interface SigningWallet {
    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4);
}

/// Stands in for Permit2 on a chain of one's own: the transfers by signature with a witness, and their nonces.
/// It has no constructor, so that its code can be placed at Permit2's address; the domain follows from that address.
contract SignaturePermits {
    struct TokenPermissions {
        address token;
        uint256 amount;
    }

    struct PermitTransferFrom {
        TokenPermissions permitted;
        uint256 nonce;
        uint256 deadline;
    }

    struct SignatureTransferDetails {
        address to;
        uint256 requestedAmount;
    }

    error SignatureExpired(uint256 signatureDeadline);
    error InvalidNonce();
    error InvalidAmount(uint256 maxAmount);
    error InvalidSignatureLength();
    error InvalidSignature();
    error InvalidSigner();
    error InvalidContractSignature();

    event UnorderedNonceInvalidation(address indexed owner, uint256 word, uint256 mask);

    /// A bit for each nonce of an owner: the word is the nonce's upper 248 bits.
    mapping(address => mapping(uint256 => uint256)) public nonceBitmap;

    bytes32 private constant DOMAIN_TYPE =
        keccak256("EIP712Domain(string name,uint256 chainId,address verifyingContract)");
    bytes32 private constant PERMISSIONS_TYPE = keccak256("TokenPermissions(address token,uint256 amount)");
    string private constant PERMIT_TYPE =
        "PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,";

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN_TYPE, keccak256("Permit2"), block.chainid, address(this)));
    }

    /// Transfers at most the permitted amount, once; the caller is the spender that the owner signed.
    function permitWitnessTransferFrom(
        PermitTransferFrom calldata permit,
        SignatureTransferDetails calldata transferDetails,
        address owner,
        bytes32 witness,
        string calldata witnessTypeString,
        bytes calldata signature
    ) external {
        if (block.timestamp > permit.deadline) revert SignatureExpired(permit.deadline);
        if (transferDetails.requestedAmount > permit.permitted.amount) revert InvalidAmount(permit.permitted.amount);
        _use(owner, permit.nonce);
        bytes32 message = keccak256(
            abi.encode(
                keccak256(abi.encodePacked(PERMIT_TYPE, witnessTypeString)),
                keccak256(abi.encode(PERMISSIONS_TYPE, permit.permitted.token, permit.permitted.amount)),
                msg.sender,
                permit.nonce,
                permit.deadline,
                witness
            )
        );
        _requireSigned(owner, keccak256(abi.encodePacked("\x19\x01", DOMAIN_SEPARATOR(), message)), signature);
        require(
            Token(permit.permitted.token).transferFrom(owner, transferDetails.to, transferDetails.requestedAmount),
            "TRANSFER_FROM_FAILED"
        );
    }

    /// Uses up nonces of the caller without a transfer.
    function invalidateUnorderedNonces(uint256 word, uint256 mask) external {
        nonceBitmap[msg.sender][word] |= mask;
        emit UnorderedNonceInvalidation(msg.sender, word, mask);
    }

    function _use(address owner, uint256 nonce) private {
        uint256 bit = 1 << (nonce & 0xff);
        if (nonceBitmap[owner][nonce >> 8] & bit != 0) revert InvalidNonce();
        nonceBitmap[owner][nonce >> 8] |= bit;
    }

    /// By the owner's contract (EIP-1271) where it has code, else by its key: 65 bytes, or 64 with v in s (EIP-2098).
    function _requireSigned(address owner, bytes32 digest, bytes calldata signature) private view {
        if (owner.code.length != 0) {
            bytes4 magic = SigningWallet(owner).isValidSignature(digest, signature);
            if (magic != SigningWallet.isValidSignature.selector) revert InvalidContractSignature();
            return;
        }
        if (signature.length != 65 && signature.length != 64) revert InvalidSignatureLength();
        bytes32 s = bytes32(signature[32:64]);
        uint8 v;
        if (signature.length == 65) {
            v = uint8(signature[64]);
        } else {
            v = uint8(uint256(s) >> 255) + 27;
            s = bytes32((uint256(s) << 1) >> 1);
        }
        address signer = ecrecover(digest, v, bytes32(signature[0:32]), s);
        if (signer == address(0)) revert InvalidSignature();
        if (signer != owner) revert InvalidSigner();
    }
}
